"""The smaller commands around training: list, init, export, predict, doctor."""
