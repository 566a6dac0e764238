# SPDX-License-Identifier: Apache-2.0
"""A training that README.md's command runs: it knows nothing of Tenure."""
import torch

weights = torch.full((1 << 20,), 1.0, device="cuda")
for step in range(10):
    activations = weights * 2.0
    del activations
torch.cuda.synchronize()
