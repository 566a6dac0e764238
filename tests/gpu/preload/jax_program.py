# SPDX-License-Identifier: Apache-2.0
"""JAX. With XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async every buffer is an allocation of the driver;
with `address` it is mapped by hand. Prints results; its own time on stderr."""
import sys
import time

import jax
import jax.numpy as jnp

if jax.default_backend() != "gpu":
    sys.exit("JAX sees no GPU")


@jax.jit
def step(state, key):
    noise = jax.random.normal(key, state.shape, dtype=jnp.float32)
    return jnp.tanh(state * 0.9 + noise * 0.1)


began = time.perf_counter()
for size in (1000, 50_000, 3_000_000):
    state = jnp.zeros((size,), dtype=jnp.float32)
    key = jax.random.PRNGKey(size)
    for _ in range(30):
        key, part = jax.random.split(key)
        state = step(state, part)
    print(size, float(state.sum()).hex(), float(state[size // 2]).hex())
print(f"seconds: {time.perf_counter() - began:.3f}", file=sys.stderr)
