"""As much of Gymnasium as examples/envs/maniskill_env.py asks for; mani_skill.envs beside this file registers its task."""
registry = {}


class Box:
    def __init__(self, low, high):
        self.low, self.high = low, high


class Spec:
    def __init__(self, create, max_episode_steps):
        self.create, self.max_episode_steps = create, max_episode_steps


class TimeLimit:
    """What make wraps around an environment."""

    def __init__(self, env):
        self.unwrapped = env


def spec(name):
    if name not in registry:
        raise LookupError(f"Environment `{name}` doesn't exist.")
    return registry[name]


def make(name, **kwargs):
    return TimeLimit(spec(name).create(**kwargs))
