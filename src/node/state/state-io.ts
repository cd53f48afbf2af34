// state-io — reads and writes whole files of a scheduler's state, and has the error for what the file system refuses.

import { isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import { type FileLayer, type OpenFile, readUpTo, reasonText, writeUpTo } from "../checkpoint/file-layer.ts";

/** `what` was attempted, such as "cannot write /…/records". A WeighbridgeError is returned as it is. */
export function stateIo(
  what: string,
  cause: unknown,
  fix = "the job goes on; start the scheduler again when that is mended",
): WeighbridgeError {
  if (isWeighbridgeError(cause)) return cause;
  return new WeighbridgeError("STATE_IO", `${what}: ${reasonText(cause)}; ${fix}`, { cause });
}

/** Returns where the next byte goes. Throws what the file system says, also if it takes no more bytes. */
export async function writeAll(file: OpenFile, bytes: Uint8Array, position: number): Promise<number> {
  if ((await writeUpTo(file, bytes, position)) === bytes.byteLength) return position + bytes.byteLength;
  throw Object.assign(new Error("the file system takes no more bytes"), { code: "ENOSPC" });
}

/** The text of a file; undefined if there is none. Throws STATE_IO. */
export async function readText(layer: FileLayer, path: string): Promise<string | undefined> {
  try {
    const file = await layer.open(path);
    try {
      const bytes = new Uint8Array(await file.size());
      return new TextDecoder().decode(bytes.subarray(0, await readUpTo(file, bytes, 0)));
    } finally {
      await file.close();
    }
  } catch (thrown) {
    if ((thrown as { readonly code?: string }).code === "ENOENT") return undefined;
    throw stateIo(`cannot read ${path}`, thrown);
  }
}
