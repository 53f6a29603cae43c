"""Episodes of 3 steps, reward 1 each, with success in the last: gymnasium_env.py three:Three-v0."""
import gymnasium as gym
import numpy as np


class Three(gym.Env):
    observation_space = gym.spaces.Box(-9, 9, (2,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def see(self):
        return np.array([self.t, self.start], np.float32)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.start = 0, self.np_random.uniform()
        return self.see(), {}

    def step(self, action):
        self.t += 1
        return self.see(), 1.0, False, self.t == 3, {"is_success": self.t == 3}


gym.register("Three-v0", Three)
