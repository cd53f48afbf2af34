// send-buffer — bounds the bytes that a connection within one machine has in the kernel's send buffer. By default Linux
// lets them grow to megabytes; with half a megabyte both sides spend a quarter to a third less CPU time per byte
// (docs/decisions/0020). Node has no option for it; koffi, where installed, makes the native call.
//
// Invariants:
//   SendBuffer.B1. It is an optimisation: without Linux or koffi, or if the system refuses, connections work, only
//       slower.
//   SendBuffer.B2. A connection to another machine is left alone: there the buffer has to cover bandwidth times delay,
//       which only the system knows.

import type net from "node:net";
import type { Log } from "../../base/log.ts";
import { type SystemCallOptions, systemFunction } from "../native-calls.ts";

/** From <sys/socket.h>. */
const SOL_SOCKET = 1;
const SO_SNDBUF = 7;
const INT_BYTES = 4;

/** The requested size, which Linux doubles: the best of eight from 128 KiB to 2 MiB, for TCP and unix sockets. */
export const SEND_BUFFER_BYTES: number = 512 * 1024;

/** Bounds the buffer of a connected socket. */
export type BoundSendBuffer = (socket: net.Socket) => void;

export type SendBufferOptions = SystemCallOptions & { readonly log: Log };

/** What to do with a new socket; undefined where nothing can be done (SendBuffer.B1). */
export async function boundSendBuffers(options: SendBufferOptions): Promise<BoundSendBuffer | undefined> {
  const { log } = options;
  const declaration = "int setsockopt(int fd, int level, int name, const int *value, uint32_t byteCount)";
  const setsockopt = await systemFunction(declaration, options, (reason) =>
    log.debug("no bounded send buffers: koffi is not installed, or does not work here", { reason }),
  );
  if (setsockopt === undefined) return undefined;
  return (socket) => {
    const fd = descriptorOf(socket);
    if (fd === undefined || !isWithinMachine(socket)) return;
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUF, [SEND_BUFFER_BYTES], INT_BYTES) !== 0) log.debug("the system bounds no send buffer");
  };
}

/** Both ends of a connection within one machine have the same address; those of a unix socket have none. */
export function isWithinMachine({ localAddress, remoteAddress }: net.Socket): boolean {
  return localAddress === remoteAddress;
}

/** Node has it on every socket's handle, but does not list it. */
function descriptorOf(socket: net.Socket): number | undefined {
  const { _handle: handle } = socket as unknown as { readonly _handle: { readonly fd?: number } | null };
  return handle?.fd !== undefined && handle.fd >= 0 ? handle.fd : undefined;
}
