"""What is recorded: chained rows, in one order, durable and never changed."""
