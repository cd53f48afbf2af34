// Goal: connections within one machine have a bounded send buffer where that is possible, and all others are left
// alone.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import type net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { type Log, SILENT_LOG } from "../../base/log.ts";
import type { LinkReader } from "../../transport/transport.ts";
import { koffi, type NativeCalls } from "../native-calls.ts";
import { realClock } from "../real-clock.ts";
import { boundSendBuffers, SEND_BUFFER_BYTES } from "./send-buffer.ts";
import { SocketTransport } from "./socket-transport.ts";

const FD = 17;
/** What a unix socket has when nobody asks. */
const UNIX_DEFAULT_BYTES = 212_992;

type Ends = { readonly localAddress?: string; readonly remoteAddress?: string };

function socketOf(ends: Ends, handle: object | null = { fd: FD }): net.Socket {
  return { ...ends, _handle: handle } as unknown as net.Socket;
}

/** Native calls that note what they were asked, and answer with `result`. */
function noted(result: number): { readonly calls: unknown[][]; readonly nativeCalls: () => Promise<NativeCalls> } {
  const calls: unknown[][] = [];
  const load = (library: string) => ({
    func:
      (declaration: string) =>
      (...parameters: readonly unknown[]) => {
        calls.push([library, /\w+(?=\()/.exec(declaration)?.[0], ...parameters]);
        return result;
      },
  });
  return { calls, nativeCalls: () => Promise.resolve({ load }) };
}

test("only a connection within the machine is bounded: TCP by equal addresses, unix sockets always (SendBuffer.B2)", async () => {
  const { calls, nativeCalls } = noted(0);
  const bound = await boundSendBuffers({ log: SILENT_LOG, platform: "linux", nativeCalls });
  assert.ok(bound !== undefined);
  bound(socketOf({ localAddress: "198.51.100.2", remoteAddress: "198.51.100.3" }));
  assert.deepEqual(calls, []);
  bound(socketOf({ localAddress: "127.0.0.1", remoteAddress: "127.0.0.1" }));
  bound(socketOf({ localAddress: "198.51.100.2", remoteAddress: "198.51.100.2" }));
  bound(socketOf({}));
  const call = ["libc.so.6", "setsockopt", FD, 1, 7, [SEND_BUFFER_BYTES], 4];
  assert.deepEqual(calls, [call, call, call]);
});

test("a socket that is gone, or has no descriptor, is left alone", async () => {
  const { calls, nativeCalls } = noted(0);
  const bound = await boundSendBuffers({ log: SILENT_LOG, platform: "linux", nativeCalls });
  for (const handle of [null, {}, { fd: -1 }]) bound?.(socketOf({}, handle));
  assert.deepEqual(calls, []);
});

test("a system that refuses is told of and does no harm (SendBuffer.B1)", async () => {
  const told: string[] = [];
  const log: Log = { ...SILENT_LOG, debug: (text) => told.push(text) };
  const bound = await boundSendBuffers({ log, platform: "linux", nativeCalls: noted(-1).nativeCalls });
  bound?.(socketOf({}));
  assert.deepEqual(told, ["the system bounds no send buffer"]);
});

test("without native calls, or on another system, there is nothing to do (SendBuffer.B1)", async () => {
  const missing = (): Promise<NativeCalls> => Promise.reject(new Error("Cannot find package"));
  assert.equal(await boundSendBuffers({ log: SILENT_LOG, platform: "linux", nativeCalls: missing }), undefined);
  const { calls, nativeCalls } = noted(0);
  assert.equal(await boundSendBuffers({ log: SILENT_LOG, platform: "darwin", nativeCalls }), undefined);
  assert.deepEqual(calls, []);
});

test("both ends of a link of the transport are bounded, over TCP and over a unix socket, where koffi is installed", async (t) => {
  const bound = await boundSendBuffers({ log: SILENT_LOG });
  if (bound === undefined) {
    t.skip("no koffi here, or no Linux");
    return;
  }
  const getsockopt = (await koffi())
    .load("libc.so.6")
    .func("int getsockopt(int fd, int level, int name, _Out_ int *value, _Inout_ uint32_t *byteCount)");
  const directory = mkdtempSync(join(tmpdir(), "weighbridge-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  const bounded: number[] = [];
  const boundSendBuffer = (socket: net.Socket): void => {
    bound(socket);
    const bytes = [0];
    const { fd } = (socket as unknown as { readonly _handle: { readonly fd: number } })._handle;
    assert.equal(getsockopt(fd, 1, 7, bytes, [4]), 0);
    bounded.push(bytes[0] ?? 0);
  };
  const transport = new SocketTransport({ clock: realClock(), boundSendBuffer });
  for (const address of ["tcp://127.0.0.1:0", `unix://${directory}/s`]) {
    const { promise: accepted, resolve } = Promise.withResolvers<void>();
    const listener = await transport.listen(address, (link) => {
      resolve();
      t.after(() => link.destroy());
      return SILENT_READER;
    });
    t.after(() => listener.close());
    const link = await transport.connect(listener.address, () => SILENT_READER, { timeoutMs: 5000 });
    t.after(() => link.destroy());
    await accepted;
  }
  const [first = 0] = bounded;
  assert.deepEqual(bounded, Array(4).fill(first));
  // Linux doubles what it grants, and may grant less.
  assert.ok(first > UNIX_DEFAULT_BYTES && first <= 2 * SEND_BUFFER_BYTES, `${first} bytes`);
});

const SILENT_READER: LinkReader = { view: () => new Uint8Array(64), received: () => {}, closed: () => {} };
