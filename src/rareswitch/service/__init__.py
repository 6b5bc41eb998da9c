"""The service: campaigns over HTTP, for actors, approvers and everyone who looks."""
