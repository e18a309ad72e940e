"""Methods that weigh the losses of several tasks, by the losses alone."""
