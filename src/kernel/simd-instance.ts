// simd-instance — instantiates the inlined kernel module on a given memory. Only the Arena and SimdKernels know it.

import type { CodecKernels } from "./codec-kernels.ts";
import type { DuplicateKernels } from "./duplicate-kernels.ts";
import type { InitializerKernels } from "./initializer-kernels.ts";
import { InlinedModule, type KernelMemory } from "./inlined-module.ts";
import type { Kernels } from "./kernels.ts";
import type { OptimizerKernels } from "./optimizer-kernels.ts";
import type { OwnershipKernels, PartitionKernels } from "./partition-kernels.ts";
import type { ReduceKernels } from "./reduce-kernels.ts";
import type { ElementKernels, RowKernels } from "./row-kernels.ts";
import { MEMORY_FLAG_OFFSET, SIMD_MODULE } from "./simd-module.ts";

/** What the arena is made of, and exports that no interface has as they are: their callers convert what they return. */
type OwnExports = {
  openArena(pageCount: number, reservePageCount: number): void;
  usedBytes(): number;
  reserveUsedBytes(): number;
  allocate(byteCount: number): number;
  allocateWork(byteCount: number): number;
  allocateReserve(byteCount: number): number;
  lend(byteCount: number): void;
  lentBytes(): number;
  stateUsedBytes(): number;
  setOverdraft(byteCount: number): void;
  release(address: number, byteCount: number): void;
  touchAhead(byteCount: number, pagesMax: number): number;
  aheadBytes(): number;

  useJob(address: number): void;
  createTable(payloadBytes: number, secret: bigint, isAside: number): number;
  splitTo(table: number, hashTop: number, depth: number): number;
  hasCertainRoom(table: number, keyCount: number): number;
};

/** The exports as they come (see the interfaces): addresses above 2 GiB are negative until `>>> 0`. */
export type SimdExports = OwnExports &
  Omit<Kernels, "createTable" | "splitTo"> &
  Omit<RowKernels, "hasCertainRoom"> &
  ElementKernels &
  ReduceKernels &
  OptimizerKernels &
  InitializerKernels &
  CodecKernels &
  DuplicateKernels &
  PartitionKernels &
  OwnershipKernels;

const MODULE = new InlinedModule({ base64: SIMD_MODULE, memoryFlagOffset: MEMORY_FLAG_OFFSET });

export function instantiateSimdModule(memory: KernelMemory): SimdExports {
  return MODULE.instantiate(memory) as unknown as SimdExports;
}
