// kernel-memory — what others need of the memory that the kernels work in: a WebAssembly.Memory, by its members. Declarations that users compile against say
// this instead, since that name comes with the browser's types, which a project for Node does not have.

export type KernelMemory = {
  readonly buffer: ArrayBuffer;
  /** By pages of 64 KiB; returns how many there were. */
  grow(pageCount: number): number;
};
