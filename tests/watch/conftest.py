from tests.watch.target import target, target_program

__all__ = ["target", "target_program"]
