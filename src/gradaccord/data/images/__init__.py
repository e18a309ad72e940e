"""Published image sets and folders of classes."""
