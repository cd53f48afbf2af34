// runtime — refuses Bun and Deno, whose sockets do not work as transport/socket-link uses them: under Bun nothing would
// arrive, under Deno the first write would end the process. A cluster inside the process has no sockets and works.

import { WeighbridgeError } from "../base/errors.ts";

/** The name and version of a runtime that is not Node, such as "Bun 1.4.4". */
function foreignRuntime({ bun, deno }: NodeJS.ProcessVersions): string | undefined {
  if (bun !== undefined) return `Bun ${bun}`;
  return deno === undefined ? undefined : `Deno ${deno}`;
}

/** Call it before creating a socket. Throws UNSUPPORTED. */
export function requireNodeSockets(versions: NodeJS.ProcessVersions = process.versions): void {
  const runtime = foreignRuntime(versions);
  if (runtime === undefined) return;
  const message = `nodes of a cluster run under Node 24 or newer, and this is ${runtime}, where EmbeddedCluster alone works: run this script with node`;
  throw new WeighbridgeError("UNSUPPORTED", message);
}
