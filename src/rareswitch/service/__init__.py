"""The service: campaigns over HTTP."""
