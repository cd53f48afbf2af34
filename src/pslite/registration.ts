// registration — what a process sends when it registers with our scheduler, and whether it can be a node.

import { badRequest } from "../base/errors.ts";
import type { Role } from "../wire/node-id.ts";
import type { BodyExtension } from "./body-extension.ts";
import type { Conversation } from "./conversation.ts";
import type { HostPort } from "./host-port.ts";
import type { IncomingConnection } from "./incoming-connection.ts";
import type { RemoteProcess } from "./remote-process.ts";
import { type PsMeta, type PsNode, PsRole } from "./wire/ps-meta.ts";

/** A node that registered, and perhaps has its rank. */
export type Registration = {
  readonly role: Role;
  readonly hostPort: HostPort;
  readonly customerId: number;
  readonly process: RemoteProcess;
  /** What it sends beyond ps-lite's fields; undefined if it is not one of ours. */
  readonly extension: BodyExtension | undefined;
  readonly token: string;
  readonly incoming: IncomingConnection;
  conversation: Conversation | undefined;
  isAdmitted: boolean;
};

const PORT_MAX = 65_535;
const HOSTNAME_CHARS_MAX = 255;
/** What is valid between "tcp://" and a port. */
const HOSTNAME = /^[^\s/[\]\p{Cc}]+$/u;

/** ps-lite's order of ranks. */
export function byHostPort(a: { readonly hostPort: HostPort }, b: { readonly hostPort: HostPort }): number {
  if (a.hostPort.hostname !== b.hostPort.hostname) return a.hostPort.hostname > b.hostPort.hostname ? -1 : 1;
  return a.hostPort.port - b.hostPort.port;
}

/** The node that registers. Throws BAD_REQUEST if it could not be reached. */
export function checkedNode({ nodes }: PsMeta): PsNode {
  const [node] = nodes;
  if (nodes.length !== 1 || node === undefined || node.role === PsRole.SCHEDULER)
    throw badRequest(`a registration that names no server or worker at a host and port: ${nodes.length} nodes`);
  const { hostname, port } = node;
  if (hostname.length > HOSTNAME_CHARS_MAX || !HOSTNAME.test(hostname) || port <= 0 || port > PORT_MAX)
    throw badRequest(
      `a node cannot be reached at the host ${JSON.stringify(hostname.slice(0, HOSTNAME_CHARS_MAX))}, port ${port}, that it registers with (DMLC_NODE_HOST, PORT)`,
    );
  return node;
}
