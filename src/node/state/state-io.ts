// state-io — reads and writes whole files of a scheduler's state, and has the error for what the file system refuses.

import { isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import { type FileLayer, type OpenFile, reasonText } from "../checkpoint/file-layer.ts";

/** `what` was attempted, such as "cannot write /…/records". A WeighbridgeError is returned as it is. */
export function stateIo(
  what: string,
  cause: unknown,
  fix = "the job goes on; start the scheduler again when that is mended",
): WeighbridgeError {
  if (isWeighbridgeError(cause)) return cause;
  return new WeighbridgeError("STATE_IO", `${what}: ${reasonText(cause)}; ${fix}`, { cause });
}

/** Writes all bytes; throws what the file system says, also if it takes no more of them. */
export async function writeAll(file: OpenFile, text: string, position: number): Promise<number> {
  const bytes = new TextEncoder().encode(text);
  for (let done = 0; done < bytes.byteLength; ) {
    const count = await file.write(bytes.subarray(done), position + done);
    if (count === 0) throw Object.assign(new Error("the file system takes no more bytes"), { code: "ENOSPC" });
    done += count;
  }
  return bytes.byteLength;
}

/** The text of a file; undefined if there is none. Throws STATE_IO. */
export async function readText(layer: FileLayer, path: string): Promise<string | undefined> {
  try {
    const file = await layer.open(path);
    try {
      const bytes = new Uint8Array(await file.size());
      let done = 0;
      for (let count = -1; done < bytes.byteLength && count !== 0; done += count) count = await file.read(bytes.subarray(done), done);
      return new TextDecoder().decode(bytes.subarray(0, done));
    } finally {
      await file.close();
    }
  } catch (thrown) {
    if ((thrown as { readonly code?: string }).code === "ENOENT") return undefined;
    throw stateIo(`cannot read ${path}`, thrown);
  }
}
