"""From a configuration file to a trained model: configuration, data, loop, evaluation, estimate."""
