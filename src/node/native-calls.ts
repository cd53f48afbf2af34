// native-calls — koffi, an optional dependency that calls functions of the system's C library. It makes some things
// faster; whoever uses it works without it, too.

/** What we use of koffi: functions that take numbers, memory or lists of numbers, and return a number. */
export type NativeCalls = {
  load(library: string): { func(declaration: string): NativeFunction };
};

export type NativeFunction = (...parameters: readonly (number | Uint8Array | readonly number[])[]) => number;

export const C_LIBRARY = "libc.so.6";

/** Rejects where koffi is not installed or does not work. */
export async function koffi(): Promise<NativeCalls> {
  const name = "koffi"; // Its types are not there where it is not.
  return ((await import(name)) as { readonly default: NativeCalls }).default;
}
