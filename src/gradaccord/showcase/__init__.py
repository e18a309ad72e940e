"""The problems behind the commands `demo` and `landscape`: the plane, the valley, names, characters."""
