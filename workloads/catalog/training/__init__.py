"""Where do time and memory go in my training?"""
