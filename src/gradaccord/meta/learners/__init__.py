"""Few-shot learners, one file each, built on two inner loops."""
