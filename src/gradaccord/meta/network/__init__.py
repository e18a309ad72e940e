"""The network as a pure function of its parameters: any module, or Conv-4 by hand."""
