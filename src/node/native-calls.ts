// native-calls — koffi, an optional dependency that calls functions of the system's C library. It makes some things
// faster; every user of it works without it.

/** The part of koffi that we use: functions that accept numbers, memory or lists of numbers, and return a number. */
export type NativeCalls = {
  load(library: string): { func(declaration: string): NativeFunction };
};

export type NativeFunction = (...parameters: readonly (number | Uint8Array | readonly number[])[]) => number;

export const C_LIBRARY = "libc.so.6";

/** Rejects if koffi is not installed or does not work. */
export async function koffi(): Promise<NativeCalls> {
  const name = "koffi"; // Without koffi there are no types to import.
  return ((await import(name)) as { readonly default: NativeCalls }).default;
}
