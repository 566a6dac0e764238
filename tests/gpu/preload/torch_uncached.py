# SPDX-License-Identifier: Apache-2.0
"""A training loop in PyTorch. Run with PYTORCH_NO_CUDA_MEMORY_CACHING=1 every tensor is a
cudaMalloc of its own. Prints the losses, to the last bit; its own time on stderr."""
import sys
import time

import torch

torch.manual_seed(3)
torch.use_deterministic_algorithms(True)
torch.backends.cuda.matmul.allow_tf32 = False
model = torch.nn.Sequential(
    torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 2048), torch.nn.GELU(),
    torch.nn.Linear(2048, 512)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
side = torch.cuda.Stream()
began = time.perf_counter()
for step in range(40):
    rows = 64 + step * 37 % 200
    with torch.cuda.stream(side):
        batch = torch.randn(rows, 512, generator=torch.Generator().manual_seed(step)).cuda()
    torch.cuda.current_stream().wait_stream(side)
    batch.record_stream(torch.cuda.current_stream())
    loss = torch.nn.functional.mse_loss(model(batch), batch)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())
torch.cuda.synchronize()
print(f"seconds: {time.perf_counter() - began:.3f}", file=sys.stderr)
