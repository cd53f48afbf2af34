// What is special about sockets; what holds for every transport is in test/conformance.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { Clock } from "../../base/clock.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import type { Link, LinkReader, Listener } from "../../transport/transport.ts";
import { realClock } from "../real-clock.ts";
import { SocketTransport } from "./socket-transport.ts";
import { WakefulLoop } from "./wakeful-loop.ts";

const DEADLINE_MS = 5000;
const transport: SocketTransport = new SocketTransport({ clock: realClock() });

/** Counts bytes, and resolves `ended` with the cause when the link is gone. */
function counter(): LinkReader & { byteCount: number; readonly ended: Promise<Error | undefined> } {
  const { promise, resolve } = Promise.withResolvers<Error | undefined>();
  const buffer = new Uint8Array(64 * 1024);
  const reader = {
    byteCount: 0,
    ended: promise,
    view: () => buffer,
    received: (byteCount: number) => {
      reader.byteCount += byteCount;
    },
    closed: resolve,
  };
  return reader;
}

async function listen(context: TestContext, address: string, accept: (link: Link) => LinkReader = () => counter()): Promise<Listener> {
  const listener = await transport.listen(address, accept);
  context.after(() => listener.close());
  return listener;
}

function temporaryDirectory(context: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), "weighbridge-"));
  context.after(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

class HearingLoop extends WakefulLoop {
  inputCount = 0;

  override input(): void {
    this.inputCount++;
  }
}

test("a loop hears of every read, but of a sleepy link only while it is set wakeful", async (context) => {
  for (const isSleepy of [false, true]) {
    const loop = new HearingLoop({ clock: realClock(), cpuMs: () => 0 });
    const sleepy = new SocketTransport({ clock: realClock(), loop, isSleepy });
    const arrived: (() => void)[] = [];
    const accepted = Promise.withResolvers<Link>();
    const listener = await sleepy.listen("tcp://127.0.0.1:0", (link) => {
      accepted.resolve(link);
      return { ...counter(), received: () => arrived.shift()?.() };
    });
    context.after(() => listener.close());
    const near = await transport.connect(listener.address, () => counter(), { timeoutMs: DEADLINE_MS });
    const send = async (): Promise<number> => {
      const { promise, resolve } = Promise.withResolvers<void>();
      arrived.push(resolve);
      near.write([new Uint8Array(8)], () => {});
      await promise;
      return loop.inputCount;
    };
    assert.equal(await send(), isSleepy ? 0 : 1);
    const far = await accepted.promise;
    far.setWakeful?.(true);
    assert.equal(await send(), isSleepy ? 1 : 2);
    far.setWakeful?.(false);
    assert.equal(await send(), isSleepy ? 1 : 2);
    near.destroy();
  }
});

test("listens on IPv4, IPv6 and host names, and tells the real port", async (context) => {
  const addresses = ["tcp://127.0.0.1:0", "tcp://localhost:0", "tcp://0.0.0.0:0"];
  if (await canBind("::1")) addresses.push("tcp://[::1]:0");
  for (const address of addresses) {
    const accepted = Promise.withResolvers<Link>();
    const listener = await listen(context, address, (link) => {
      accepted.resolve(link);
      return counter();
    });
    assert.match(listener.address, /^tcp:\/\/.+:[1-9]\d+$/);
    assert.equal(listener.address.replace(/\d+$/, "0"), address);
    const near = counter();
    const link = await transport.connect(listener.address, () => near, { timeoutMs: DEADLINE_MS });
    assert.equal(link.remote, listener.address);
    assert.match((await accepted.promise).remote, /^tcp:\/\/(127\.0\.0\.1|\[::1\]|\[::ffff:127\.0\.0\.1\]):\d+$/);
    link.close();
    assert.equal(await near.ended, undefined);
  }
});

async function canBind(host: string): Promise<boolean> {
  const server = net.createServer();
  const bound = await new Promise<boolean>((resolve) => {
    server.once("error", () => resolve(false));
    server.listen(0, host, () => resolve(true));
  });
  server.close();
  return bound;
}

test("says what is wrong with an address it cannot listen on", async () => {
  const noReader = (): LinkReader => counter();
  await assert.rejects(transport.listen("tcp://192.0.2.1:0", noReader), throwsCode("BAD_CONFIG", /not an address of this machine/));
  await assert.rejects(transport.listen("tcp://nobody.invalid:0", noReader), throwsCode("BAD_CONFIG", /host name/));
  await assert.rejects(transport.listen(`unix:///tmp/${"x".repeat(200)}`, noReader), throwsCode("BAD_CONFIG", /205 bytes.*shorter/));
  await assert.rejects(transport.listen("unix:///dev/null/x.sock", noReader), throwsCode("BAD_CONFIG", /unix:\/\/\/dev\/null/));
});

test("says what is wrong when it cannot connect", async () => {
  const none = (): LinkReader => assert.fail("not connected");
  const connect = (address: string): Promise<Link> => transport.connect(address, none, { timeoutMs: DEADLINE_MS });
  await assert.rejects(connect("tcp://127.0.0.1:1"), throwsCode("NO_ROUTE", /tcp:\/\/127\.0\.0\.1:1: the connection was refused/));
  await assert.rejects(connect("tcp://localhost:1"), throwsCode("NO_ROUTE", /refused/));
  await assert.rejects(connect("tcp://nobody.invalid:1"), throwsCode("NO_ROUTE", /nobody\.invalid.*host name/));
  await assert.rejects(connect("unix:///tmp/weighbridge-nothing-here.sock"), throwsCode("NO_ROUTE", /no such socket file/));
  await assert.rejects(connect("tcp://127.0.0.1:0"), throwsCode("BAD_ARGUMENT", /port 0/));
});

test("gives up connecting at the deadline, and says how long it waited", async (context) => {
  const listener = await listen(context, "tcp://127.0.0.1:0");
  const hasty: Clock = {
    ...realClock(),
    after: (_delayMs, fire) => {
      process.nextTick(fire);
      return () => {};
    },
  };
  const opened = new SocketTransport({ clock: hasty }).connect(listener.address, () => assert.fail(), { timeoutMs: 1234 });
  await assert.rejects(opened, throwsCode("NO_ROUTE", /no answer within 1234 ms/));
});

test("creates the directory of a unix socket, and removes the file when it closes", async (context) => {
  const path = join(temporaryDirectory(context), "a/b/server.sock");
  const listener = await transport.listen(`unix://${path}`, () => counter());
  assert.ok(existsSync(path));
  assert.equal(listener.address, `unix://${path}`);
  await listener.close();
  assert.ok(!existsSync(path));
});

test("replaces the socket file of a dead process, but never that of a living one nor any other file", async (context) => {
  const path = join(temporaryDirectory(context), "server.sock");
  const script = `require("node:net").createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, "SIGKILL"))`;
  spawnSync(process.execPath, ["-e", script]);
  assert.ok(existsSync(path), "a killed process leaves its file");

  const listener = await transport.listen(`unix://${path}`, () => counter());
  await assert.rejects(
    transport.listen(`unix://${path}`, () => counter()),
    throwsCode("PORT_IN_USE", /it is taken; stop the process/),
  );
  const near = counter();
  const link = await transport.connect(`unix://${path}`, () => near, { timeoutMs: DEADLINE_MS });
  link.close();
  await near.ended;
  await listener.close();

  writeFileSync(path, "precious");
  await assert.rejects(
    transport.listen(`unix://${path}`, () => counter()),
    throwsCode("PORT_IN_USE", /taken/),
  );
  assert.ok(existsSync(path));
});

test("takes the end of the other side's writing for a close", async (context) => {
  const far = counter();
  const listener = await listen(context, "tcp://127.0.0.1:0", () => far);
  const raw = net.connect({ port: Number(listener.address.split(":").at(-1)), host: "127.0.0.1", allowHalfOpen: true });
  raw.end("hello");
  raw.resume();
  assert.equal(await far.ended, undefined);
  assert.equal(far.byteCount, 5);
  await once(raw, "end");
  raw.destroy();
});

test("tells the cause when the other side resets the connection", async (context) => {
  const far = counter();
  const accepted = Promise.withResolvers<Link>();
  const listener = await listen(context, "tcp://127.0.0.1:0", (link) => {
    accepted.resolve(link);
    return far;
  });
  const raw = net.connect({ port: Number(listener.address.split(":").at(-1)), host: "127.0.0.1" });
  await accepted.promise;
  raw.resetAndDestroy();
  assert.match(String(await far.ended), /ECONNRESET/);
});

test("a close does not wait forever for a peer that never ends", async (context) => {
  const timers: { delayMs: number; fire: () => void }[] = [];
  const lingering = Promise.withResolvers<void>();
  const clock: Clock = {
    ...realClock(),
    after: (delayMs, fire) => {
      timers.push({ delayMs, fire });
      if (delayMs === 1000) lingering.resolve();
      return () => {};
    },
  };
  const server = net.createServer({ allowHalfOpen: true }, (socket) => {
    context.after(() => socket.destroy());
    socket.on("error", () => {}); // Reads, and never ends.
    socket.resume();
  });
  server.listen(0, "127.0.0.1");
  context.after(() => server.close());
  await once(server, "listening");
  const near = counter();
  const { port } = server.address() as net.AddressInfo;
  const link = await new SocketTransport({ clock }).connect(`tcp://127.0.0.1:${port}`, () => near, { timeoutMs: DEADLINE_MS });
  link.close();
  await lingering.promise;
  timers.find(({ delayMs }) => delayMs === 1000)?.fire();
  assert.equal(await near.ended, undefined);
});

test("open links keep the process alive, closed ones do not", () => {
  const script = `
    import { realClock } from ${JSON.stringify(new URL("../real-clock.ts", import.meta.url).href)};
    import { SocketTransport } from ${JSON.stringify(new URL("./socket-transport.ts", import.meta.url).href)};
    const transport = new SocketTransport({ clock: realClock() });
    const reader = { view: () => new Uint8Array(10), received() { far.close(); }, closed() { console.log("closed"); } };
    let far;
    const listener = await transport.listen("tcp://127.0.0.1:0", (link) => { far = link; return reader; });
    const link = await transport.connect(listener.address, () => ({ ...reader }), { timeoutMs: 60_000 });
    await listener.close();
    setTimeout(() => link.write([new Uint8Array(1)], () => {}), 20).unref();`;
  const { stdout, stderr, status } = spawnSync(process.execPath, ["--input-type=module", "-e", script], {
    encoding: "utf8",
    timeout: 60_000,
  });
  assert.equal(stderr, "");
  assert.equal(stdout, "closed\nclosed\n");
  assert.equal(status, 0);
});
