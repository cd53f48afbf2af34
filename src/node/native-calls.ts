// native-calls — koffi, an optional dependency that calls functions of native libraries. Those of the system's C
// library make some things faster, and every user of them works without; CUDA needs it.

import type { NativeLibraries } from "../gpu/cuda-driver.ts";

/** The part of koffi that we use: functions that accept numbers, memory or lists of numbers, and return a number. */
export type NativeCalls = {
  load(library: string): { func(declaration: string): NativeFunction };
};

export type NativeFunction = (...parameters: readonly (number | Uint8Array | readonly number[])[]) => number;

export const C_LIBRARY = "libc.so.6";

/** Rejects if koffi is not installed or does not work. */
export async function koffi(): Promise<NativeCalls & NativeLibraries> {
  const name = "koffi"; // Without koffi there are no types to import.
  return ((await import(name)) as { readonly default: NativeCalls & NativeLibraries }).default;
}
