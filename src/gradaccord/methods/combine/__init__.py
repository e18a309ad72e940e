"""Methods that turn the gradients of several tasks into one."""
