// sums-stage — for tests: what stores of sums are made of, with the kernels that run and with the plain ones.

import type { Arena } from "../kernel/arena.ts";
import { simdElementKernels } from "../kernel/element-kernels.ts";
import { PlainElementKernels } from "../kernel/plain-element-kernels.ts";
import { PlainKernels } from "../kernel/plain-kernels.ts";
import { PlainRowKernels } from "../kernel/plain-row-kernels.ts";
import { simdRowKernels } from "../kernel/row-kernels.ts";
import { SimdKernels } from "../kernel/simd-kernels.ts";
import type { SumHost } from "../store/sums/sum-requests.ts";

export function simdSumHost(arena: Arena): SumHost {
  return { arena, kernels: new SimdKernels(arena), rowKernels: simdRowKernels(arena), elements: simdElementKernels(arena) };
}

export function plainSumHost(arena: Arena): SumHost {
  const kernels = new PlainKernels(arena);
  return { arena, kernels, rowKernels: new PlainRowKernels(arena, kernels), elements: new PlainElementKernels(arena) };
}
