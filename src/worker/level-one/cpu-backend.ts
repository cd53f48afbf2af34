// cpu-backend — the devices of a shared model on the CPU, in one thread of it: typed arrays, some of them in a memory
// that all threads share, and kernels on that memory.
//
//   table      of every key: result 0 | result 1 | slots | hyper-parameters      u32 addresses, KEY_WORDS of them
//   scratch    of every thread: job of the optimizers | sources | targets | a chunk
//
// Invariants:
//   CpuBackend.C1. Arrays in the memory of the model are read and written where they lie. Others are copied by the
//       thread that has them: what is pushed into one of two copies of its device and key, by the version of the round.
//   CpuBackend.C2. A share of a task is SHARE_BYTES of the result, all of it below `bigArrayLength`. Which thread does
//       it changes no bit.
//   CpuBackend.C3. With a built-in updater a share sums a chunk into scratch, makes the next weights of it and of those
//       of the round before, and copies those to the pulls that the task serves. There is no array of sums.

import { assert } from "../../base/assert.ts";
import { bytesOf } from "../../base/bytes.ts";
import { badArgument, showValue, WeighbridgeError } from "../../base/errors.ts";
import { Arena } from "../../kernel/arena.ts";
import { type ElementType, elementTypeOf, WORD_BYTES } from "../../kernel/elements.ts";
import type { KernelMemory } from "../../kernel/inlined-module.ts";
import { HYPER, HYPER_BYTES, HYPER_FLOATS, type OptimizerNumber } from "../../kernel/optimizer-kernels.ts";
import { type ReduceKernels, simdReduceKernels } from "../../kernel/reduce-kernels.ts";
import { ROW_ELEMENTS, type RowArray, type RowElement } from "../../kernel/row-element.ts";
import { writeCorrections, writeSettings } from "../../store/updaters/hyper-parameters.ts";
import { LearningRate } from "../../store/updaters/learning-rate.ts";
import type { ResolvedOptimizer } from "../../store/updaters/optimizer-spec.ts";
import { slotLayoutOf } from "../../store/updaters/slot-layout.ts";
import { numberOf } from "../../store/updaters/updater.ts";
import type { DataRef, HandOutTask, KeyPlan, ModelBackend, PushedData, ReduceTask, ResultVersion, ShareRunner } from "./model-backend.ts";

const SHARE_BYTES = 2 ** 20;
const CHUNK_BYTES = 16_384;
const KEY_WORDS = 4;
const SLOTS = 2;
const HYPER_ADDRESS = 3;

const JOB_BYTES = 64;
const LIST_BYTES = 256;
const SOURCES = JOB_BYTES;
const TARGETS = SOURCES + LIST_BYTES;
const CHUNK = TARGETS + LIST_BYTES;
const SCRATCH_BYTES = CHUNK + CHUNK_BYTES;

/** Plain data: it can be posted to another thread. */
export type CpuMemory = {
  readonly memory: KernelMemory;
  readonly table: number;
  /** By thread. */
  readonly scratch: readonly number[];
};

export type CpuBackendOptions = {
  readonly dtype: RowElement;
  /** As many threads as may ever compute, the owner included. */
  readonly threadCount: number;
  readonly keyCountMax: number;
  /** From how many elements on a result is cut into shares. */
  readonly bigArrayLength: number;
  readonly updater: ResolvedOptimizer | undefined;
};

/** What a thread needs beside what it is posted. */
export type CpuThread = {
  readonly thread: number;
  /** Calls back while no other thread takes or releases memory (Arena.A6). */
  readonly exclusively: <T>(act: () => T) => T;
};

/** The memory of a model, at most `bytesMax` bytes of it. Throws BAD_ARGUMENT for an impossible size. */
export function createCpuMemory({ threadCount, keyCountMax }: CpuBackendOptions, bytesMax: number | undefined): CpuMemory {
  const arena = new Arena({ bytesMax });
  const table = arena.allocate(keyCountMax * KEY_WORDS * WORD_BYTES);
  const scratch = Array.from({ length: threadCount }, () => arena.allocate(SCRATCH_BYTES));
  return { memory: arena.memory, table, scratch };
}

export class CpuBackend implements ModelBackend<RowArray> {
  readonly name = "cpu";
  readonly dataEpoch = undefined; // arrays of users may be transferred away
  readonly dtype: RowElement;
  readonly runner: ShareRunner;
  readonly #arena: Arena;
  readonly #kernels: ReduceKernels;
  readonly #options: CpuBackendOptions;
  readonly #thread: CpuThread;
  readonly #memory: CpuMemory;
  readonly #type: ElementType;
  readonly #elementBytes: number;
  readonly #scratch: number;
  readonly #optimizer: { readonly number: OptimizerNumber; readonly slotCount: number; readonly rate: LearningRate } | undefined;
  /** Copies of what devices of this thread pushed (CpuBackend.C1), by key, device and version. */
  readonly #copies = new Map<string, DataRef>();
  /** Arrays that `tensor` gave, by their addresses: how many bytes each takes. */
  readonly #tensors = new Map<number, number>();

  constructor(memory: CpuMemory, options: CpuBackendOptions, thread: CpuThread) {
    this.#arena = new Arena({ opened: memory.memory });
    this.#kernels = simdReduceKernels(this.#arena);
    this.#options = options;
    this.#thread = thread;
    this.#memory = memory;
    this.dtype = options.dtype;
    const { Array: TypedArray, bytes } = ROW_ELEMENTS[options.dtype];
    this.#type = elementTypeOf(new TypedArray(new ArrayBuffer(0))) as ElementType;
    this.#elementBytes = bytes;
    this.#scratch = memory.scratch[thread.thread] as number;
    this.#arena.module.useJob(this.#scratch);
    const { updater } = options;
    this.#optimizer =
      updater === undefined
        ? undefined
        : { number: numberOf(updater), slotCount: slotsOf(updater).length, rate: new LearningRate(updater) };
    this.runner = {
      kind: "shares",
      begin: (plan, round) => this.#begin(plan, round),
      runShare: (task, share) => (task.kind === "reduce" ? this.#reduce(task, share) : this.#handOut(task, share)),
    };
  }

  open(): void {
    // the memory is there
  }

  runsUpdater(updater: ResolvedOptimizer): boolean {
    return updater === this.#options.updater;
  }

  openKey(plan: KeyPlan, updater: ResolvedOptimizer | undefined): void {
    assert(updater === undefined || updater === this.#options.updater, "a model has one updater");
    const bytes = plan.resultLength * this.#elementBytes;
    this.#thread.exclusively(() => {
      const taken: [address: number, bytes: number][] = [];
      const take = (count: number): number => {
        const address = this.#arena.allocate(count);
        taken.push([address, count]);
        return address;
      };
      try {
        const record = [take(bytes), take(bytes), 0, 0];
        if (updater !== undefined) {
          const slots = slotsOf(updater);
          if (slots.length > 0) record[SLOTS] = take(slots.length * bytes);
          record[HYPER_ADDRESS] = take(HYPER_BYTES);
        }
        this.#arena.words.set(record, this.#recordAt(plan));
      } catch (thrown) {
        for (const [address, count] of taken) this.#arena.release(address, count);
        throw thrown;
      }
    });
    for (const version of [0, 1]) this.#arena.module.zero(this.#addressOf(plan, version), bytes);
    if (updater === undefined) return;
    writeSettings(this.#hyperOf(plan), updater);
    for (const [k, { start }] of slotsOf(updater).entries())
      this.#arena.module.fillFloats(this.#addressOf(plan, SLOTS) + k * bytes, plan.length, start as number);
  }

  checkData(data: RowArray, what: string): void {
    const { Array: TypedArray } = ROW_ELEMENTS[this.dtype];
    if (!(data instanceof TypedArray)) throw badArgument(`${what} is a ${TypedArray.name}, not ${showValue(data)}`);
    if (data.length === 0) throw badArgument(`${what} is empty, or its buffer was transferred`);
  }

  lengthOf(data: RowArray): number {
    return data.length;
  }

  valuesOf(data: RowArray): RowArray {
    return data;
  }

  refOf(data: RowArray): DataRef {
    return data.buffer === this.#arena.bytes.buffer ? data.byteOffset : 0;
  }

  takePush({ plan, device, data, after }: PushedData<RowArray>, version: ResultVersion): DataRef {
    if (after !== undefined) throw badArgument("arrays of the CPU are ready when they are pushed: there is no `after`");
    const own = this.refOf(data);
    if (own !== 0) return own;
    const name = `${plan.index} ${device} ${version}`;
    const address = this.#copies.get(name) ?? this.#thread.exclusively(() => this.#arena.allocate(plan.length * this.#elementBytes));
    this.#copies.set(name, address);
    bytesAt(this.#arena.bytes, address, data.byteLength).set(bytesOf(data));
    return address;
  }

  copyOut(plan: KeyPlan, version: ResultVersion, data: RowArray): void {
    if (data.length !== plan.resultLength)
      throw new WeighbridgeError("BUFFER_DETACHED", `the array that key ${plan.key} was to be pulled into was transferred`);
    const values = bytesAt(this.#arena.bytes, this.#addressOf(plan, version), data.byteLength);
    bytesOf(data).set(values);
  }

  borrowResult(plan: KeyPlan, version: ResultVersion): RowArray {
    const { Array: TypedArray } = ROW_ELEMENTS[this.dtype];
    return new TypedArray(this.#arena.memory.buffer, this.#addressOf(plan, version), plan.resultLength);
  }

  returnResult(): void {
    // it was lent where it lies
  }

  streamOf(): undefined {
    return undefined;
  }

  /** An array of zeros in the memory of the model (CpuBackend.C1). Throws ARENA_FULL. */
  tensor(shape: readonly number[]): RowArray {
    const { Array: TypedArray } = ROW_ELEMENTS[this.dtype];
    const length = shape.reduce((product, side) => product * side, 1);
    const bytes = length * this.#elementBytes;
    const address = this.#thread.exclusively(() => this.#arena.allocate(bytes));
    this.#tensors.set(address, bytes);
    this.#arena.module.zero(address, bytes);
    return new TypedArray(this.#arena.memory.buffer, address, length);
  }

  /** Throws BAD_ARGUMENT for an array that `tensor` of this thread did not give, or that was given back. */
  free(data: RowArray): void {
    const address = this.refOf(data);
    const bytes = this.#tensors.get(address);
    if (bytes === undefined) throw badArgument("free() takes an array that tensor() gave, once");
    this.#tensors.delete(address);
    this.#thread.exclusively(() => this.#arena.release(address, bytes));
  }

  close(): void {
    this.#copies.clear(); // the memory goes with the last who knows it
  }

  #begin(plan: KeyPlan, round: number): number {
    if (round > 0 && this.#optimizer !== undefined && this.#addressOf(plan, HYPER_ADDRESS) !== 0) {
      const numbers = this.#hyperOf(plan);
      numbers[HYPER.gradientScale] = 1;
      numbers[HYPER.learningRate] = this.#optimizer.rate.at(round - 1);
      if (this.#options.updater?.beta1 !== undefined) writeCorrections(numbers, this.#options.updater, round);
    }
    const { resultLength } = plan;
    return resultLength < this.#options.bigArrayLength ? 1 : Math.ceil((resultLength * this.#elementBytes) / SHARE_BYTES);
  }

  /** Of a share: bytes of the result (CpuBackend.C2). */
  #spanOf({ resultLength }: KeyPlan, share: number): { readonly from: number; readonly to: number } {
    const bytes = resultLength * this.#elementBytes;
    return resultLength < this.#options.bigArrayLength
      ? { from: 0, to: bytes }
      : { from: share * SHARE_BYTES, to: Math.min(bytes, (share + 1) * SHARE_BYTES) };
  }

  #reduce(task: ReduceTask, share: number): void {
    const { plan, targets } = task;
    const { from, to } = this.#spanOf(plan, share);
    this.#list(TARGETS, targets);
    if (plan.operation === "gather") this.#gather(task, from, to);
    else this.#sum(task, from, to);
  }

  #sum({ plan, version, sources, targets }: ReduceTask, from: number, to: number): void {
    const count = this.#list(SOURCES, sources);
    const [sourceList, targetList] = [this.#scratch + SOURCES, this.#scratch + TARGETS];
    const result = this.#addressOf(plan, version);
    const hyper = this.#addressOf(plan, HYPER_ADDRESS);
    if (this.#optimizer === undefined || hyper === 0) {
      this.#kernels.reduceSpans(this.#type, result + from, sourceList, count, targetList, targets.length, from, to - from);
      return;
    }
    const weights = this.#addressOf(plan, version ^ 1);
    const slots = this.#addressOf(plan, SLOTS);
    const stride = plan.length * this.#elementBytes;
    const sum = this.#scratch + CHUNK;
    for (let at = from; at < to; at += CHUNK_BYTES) {
      const bytes = Math.min(CHUNK_BYTES, to - at);
      this.#kernels.reduceSpans(this.#type, sum, sourceList, count, 0, 0, at, bytes);
      const floats = bytes / WORD_BYTES;
      this.#arena.module.updateBlock(this.#optimizer.number, result + at, weights + at, slots + at, stride, sum, 1, floats, hyper);
      this.#kernels.copySpan(targetList, targets.length, at, result + at, bytes);
    }
  }

  /** The rows of the devices, one after the other; zeros for one that was lost. */
  #gather({ plan, version, sources, targets }: ReduceTask, from: number, to: number): void {
    const result = this.#addressOf(plan, version);
    const part = plan.length * this.#elementBytes;
    for (let at = from; at < to; ) {
      const device = Math.floor(at / part);
      const bytes = Math.min(CHUNK_BYTES, to - at, (device + 1) * part - at);
      const source = sources[device] as number;
      if (source === 0) this.#arena.module.zero(result + at, bytes);
      else this.#arena.module.copy(result + at, source + at - device * part, bytes);
      this.#kernels.copySpan(this.#scratch + TARGETS, targets.length, at, result + at, bytes);
      at += bytes;
    }
  }

  #handOut({ plan, version, target }: HandOutTask, share: number): void {
    const { from, to } = this.#spanOf(plan, share);
    this.#arena.module.copy(target + from, this.#addressOf(plan, version) + from, to - from);
  }

  /** Lists the refs that are not 0; returns how many there are. One by one: `set` is slow on shared memory. */
  #list(at: number, refs: readonly DataRef[]): number {
    let next = (this.#scratch + at) / WORD_BYTES;
    const first = next;
    for (let i = 0; i < refs.length; i++) if (refs[i] !== 0) this.#arena.words[next++] = refs[i] as DataRef;
    return next - first;
  }

  #recordAt({ index }: KeyPlan): number {
    return this.#memory.table / WORD_BYTES + index * KEY_WORDS;
  }

  #addressOf(plan: KeyPlan, field: number): number {
    return this.#arena.words[this.#recordAt(plan) + field] as number;
  }

  #hyperOf(plan: KeyPlan): Float64Array {
    return new Float64Array(this.#arena.memory.buffer, this.#addressOf(plan, HYPER_ADDRESS), HYPER_FLOATS);
  }
}

/** What the updater keeps beside the weights: numbers that begin alike everywhere. */
function slotsOf(updater: ResolvedOptimizer): ReturnType<typeof slotLayoutOf>["slots"] {
  return slotLayoutOf(updater, { kind: "tensor", width: 1 }).slots;
}

function bytesAt(bytes: Uint8Array<ArrayBufferLike>, address: number, byteCount: number): Uint8Array<ArrayBufferLike> {
  return bytes.subarray(address, address + byteCount);
}
