// inlined-module — a WebAssembly module that the sources hold as text, and its instances on given memories. What the
// module does is the business of simd-instance and nn/layer-kernels.
//
// Invariants:
//   InlinedModule.W1. A module is compiled at most once for each kind of memory, shared and plain, at its first use: a
//       simulated cluster opens thousands of arenas. A compiled module has no state: an instance keeps its state in its
//       memory and its globals.

import { assert } from "../base/assert.ts";

const FLAG_SHARED = 3;
const FLAG_PLAIN = 1;

type InlinedModuleSource = {
  /** WebAssembly in base64, built for shared memory that it imports as env.memory. */
  readonly base64: string;
  /** Where the flag byte of the imported memory lies: 3 for shared memory, 1 for plain memory. */
  readonly memoryFlagOffset: number;
};

export class InlinedModule {
  readonly #source: InlinedModuleSource;
  #shared: WebAssembly.Module | undefined;
  #plain: WebAssembly.Module | undefined;
  #isValid: boolean | undefined;

  constructor(source: InlinedModuleSource) {
    this.#source = source;
  }

  /** False when the engine lacks something that the module needs. */
  get isValid(): boolean {
    this.#isValid ??= WebAssembly.validate(this.#binary(FLAG_SHARED));
    return this.#isValid;
  }

  /** The exports of a new instance on this memory. */
  instantiate(memory: KernelMemory): Readonly<Record<string, unknown>> {
    return new WebAssembly.Instance(this.#compiledFor(memory), { env: { memory: memory as WebAssembly.Memory } }).exports;
  }

  #compiledFor({ buffer }: KernelMemory): WebAssembly.Module {
    if (buffer instanceof ArrayBuffer) {
      this.#plain ??= new WebAssembly.Module(this.#binary(FLAG_PLAIN));
      return this.#plain;
    }
    this.#shared ??= new WebAssembly.Module(this.#binary(FLAG_SHARED));
    return this.#shared;
  }

  #binary(memoryFlag: number): Uint8Array<ArrayBuffer> {
    const { base64, memoryFlagOffset } = this.#source;
    const binary = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
    assert(binary[memoryFlagOffset] === FLAG_SHARED, "an inlined module is built for shared memory");
    binary[memoryFlagOffset] = memoryFlag;
    return binary;
  }
}

/**
 * The part of WebAssembly.Memory that others need. Declarations use this type, as they use no other of WebAssembly's
 * types: those come with the browser's types, which a project for Node lacks.
 */
export type KernelMemory = {
  readonly buffer: ArrayBuffer;
  /** By pages of 64 KiB; returns how many there were. */
  grow(pageCount: number): number;
};
