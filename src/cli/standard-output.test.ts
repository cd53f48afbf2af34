// Goal: output that cannot be written is noticed once, with its reason, and decides the exit code.

import assert from "node:assert/strict";
import { Writable } from "node:stream";
import { test } from "node:test";
import { isReaderGone, outputExitCode, outputText, StandardOutput } from "./standard-output.ts";

function failing(code: string): Writable {
  const error = Object.assign(new Error(`${code}: no more, write`), { code });
  return new Writable({ autoDestroy: false, write: (_chunk, _encoding, done) => done(error) });
}

test("the first error is kept and told once, however often something is written (StandardOutput.O1)", async () => {
  const stream = failing("ENOSPC");
  const output = new StandardOutput(stream);
  const told: string[] = [];
  output.onError((error) => told.push(error.message));
  await output.flush();
  stream.write("a");
  stream.write("b");
  await output.flush();
  assert.deepEqual([told, output.error?.message], [["ENOSPC: no more, write"], "ENOSPC: no more, write"]);
});

test("a full disk is a failure with a name, a reader that is gone ends a command as SIGPIPE would (StandardOutput.O2)", async () => {
  const errorOf = async (code: string): Promise<Error> => {
    const output = new StandardOutput(failing(code));
    await output.flush();
    assert.ok(output.error !== undefined);
    return output.error;
  };
  const [full, gone] = [await errorOf("ENOSPC"), await errorOf("EPIPE")];
  assert.deepEqual([outputExitCode(full), isReaderGone(full)], [1, false]);
  assert.equal(outputText(full), "standard output cannot be written: ENOSPC: no more, write");
  assert.deepEqual([outputExitCode(gone), isReaderGone(gone)], [141, true]);
});

test("what can be written is no error", async () => {
  const output = new StandardOutput(new Writable({ write: (_chunk, _encoding, done) => done() }));
  await output.flush();
  assert.equal(output.error, undefined);
});
