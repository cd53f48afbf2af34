// temporary-directory — an empty directory for the tests of a file, a suite or a single test: whichever it is made in.
// It is gone when those are over.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";

export function temporaryDirectory(name = "test"): string {
  const directory = mkdtempSync(join(tmpdir(), `weighbridge-${name}-`));
  after(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}
