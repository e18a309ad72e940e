"""Record calls in processes that tests start: Python imports this module first, if it finds it."""

import atexit

import function_calls

function_calls.start()
atexit.register(function_calls.save)
