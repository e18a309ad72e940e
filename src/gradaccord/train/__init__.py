"""From a configuration file to a trained model: configuration, loop, checkpoints, comparisons."""
