// random-token — a name that nobody else has, by chance. Not `crypto.randomUUID`, which pages over plain HTTP do not have.

const BYTES = 16;

/** 128 bits by chance, as 32 hexadecimal digits. */
export function randomToken(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(BYTES)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
