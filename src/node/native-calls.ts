// native-calls — koffi, an optional dependency that calls functions of native libraries. Those of the system's C
// library make some things faster, and every user of them works without; CUDA needs it.

import type { NativeLibraries } from "../gpu/cuda-driver.ts";

/** The part of koffi that we use: functions that accept numbers, memory or lists of numbers, and return a number. */
export type NativeCalls = {
  load(library: string): { func(declaration: string): NativeFunction };
};

/** With the memory at an address as an array. It must be mapped for as long as anybody looks at it. */
export type NativeViews = NativeCalls & { view(address: number, byteCount: number): ArrayBuffer };

export type NativeFunction = (...parameters: readonly (number | Uint8Array | readonly number[])[]) => number;

export type SystemCallOptions = {
  readonly platform?: string;
  /** Rejects if there are none. For tests. */
  readonly nativeCalls?: () => Promise<NativeCalls>;
};

/**
 * A function of Linux's C library; undefined on other systems. If koffi is not installed, or does not work here, it is
 * undefined too, and `missing` is called with the reason.
 */
export async function systemFunction(
  declaration: string,
  { platform = process.platform, nativeCalls = koffi }: SystemCallOptions,
  missing: (reason: string) => void = () => {},
): Promise<NativeFunction | undefined> {
  if (platform !== "linux") return undefined;
  try {
    return (await nativeCalls()).load("libc.so.6").func(declaration);
  } catch (thrown) {
    missing(String(thrown));
    return undefined;
  }
}

/** Rejects if koffi is not installed or does not work. */
export async function koffi(): Promise<NativeViews & NativeLibraries> {
  const name = "koffi"; // Without koffi there are no types to import.
  return ((await import(name)) as { readonly default: NativeViews & NativeLibraries }).default;
}
