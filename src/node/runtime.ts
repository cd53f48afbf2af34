// runtime — refuses Bun and Deno, where sockets as transport/socket-link uses them do not work: under Bun nothing would
// arrive, under Deno the first write would end the process. A cluster inside the process has no sockets and works.

import { WeighbridgeError } from "../base/errors.ts";

/** The runtime and its version where it is not Node, such as "Bun 1.4.4". */
function foreignRuntime({ bun, deno }: NodeJS.ProcessVersions): string | undefined {
  if (bun !== undefined) return `Bun ${bun}`;
  return deno === undefined ? undefined : `Deno ${deno}`;
}

/** To be called before a socket is made. Throws UNSUPPORTED. */
export function requireNodeSockets(versions: NodeJS.ProcessVersions = process.versions): void {
  const runtime = foreignRuntime(versions);
  if (runtime === undefined) return;
  const message = `nodes of a cluster run under Node 24 or newer, and this is ${runtime}, where EmbeddedCluster alone works: run this script with node`;
  throw new WeighbridgeError("UNSUPPORTED", message);
}
