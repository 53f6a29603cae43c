"""Three's episodes as people write environments, a class for each: odd:Name-v0."""
import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from three import Three

inf = np.inf


class Arrays(Three):  # whatever holds one number
    def step(self, action):
        obs, reward, ended, cut, info = super().step(action)
        return obs, np.array([reward], "f4"), np.array([ended]), np.bool_(cut), {"is_success": np.array([self.t == 3])}


class Nested(Three):
    observation_space = Dict({"robot": Dict({"pos": Box(-9, 9, (2,), np.float64), "n": Discrete(5)}), "scalar": Box(-9, 9, ()),
                              "on": MultiBinary(2), "bytes": Box(0, 255, (2,), np.uint8), "image": Box(0, 255, (4, 5, 3), np.uint8)})

    def see(self):
        return {"robot": {"pos": np.array([self.t, 0.0]), "n": self.t}, "scalar": np.float32(self.t), "on": np.ones(2, np.int8),
                "bytes": np.array([1, 200], "u1"), "image": np.full((4, 5, 3), 250 + self.t, "u1")}


class Whole(Three):
    observation_space = Box(0, 10**6, (2,), np.int64)

    def see(self):
        return np.array([self.t, 2**20])


class Matrix(Three):
    action_space = Box(-2, 2, (2, 3), np.float64)

    def step(self, action):
        assert action.shape == (2, 3) and action.dtype == np.float64
        return super().step(action)


class None_(Three):
    def step(self, action):
        obs, _, *rest = super().step(action)
        return obs, None, *rest


class Text(Three):
    def step(self, action):
        return *super().step(action)[:4], {"success": "yes"}


class Wide(Three):
    def see(self):
        return np.zeros(4, "f4")


class Huge(Three):
    observation_space = Box(-inf, inf, (2,), np.float64)

    def see(self):
        return np.array([1e300, 0])


class Tuple_(Three):
    observation_space = gym.spaces.Tuple((Box(-9, 9, (2,)), Discrete(3)))


class Buttons(Three):
    action_space = Discrete(3)


class Unbounded(Three):
    action_space = Box(np.array([-inf, -1], "f4"), np.array([inf, 1], "f4"))


for one in list(globals().values()):
    if isinstance(one, type) and issubclass(one, Three) and one is not Three:
        gym.register(one.__name__.strip("_") + "-v0", one)
