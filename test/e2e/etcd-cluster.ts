// etcd-cluster — members of etcd for tests, and a job whose schedulers keep their state there. Needs Debian's
// etcd-server.

import { existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "../../src/node/launcher/free-port.ts";
import { EtcdClient } from "../../src/node/state/etcd-client.ts";
import { Processes, type Running, script } from "./processes.ts";

const ETCD = ["/usr/bin/etcd", "/usr/local/bin/etcd"].find((path) => existsSync(path)) ?? "";
/** Why tests with etcd are skipped here, if so. */
export const NO_ETCD: string | false = ETCD === "" ? "there is no etcd: apt-get install etcd-server" : false;
export const LEASE_MS = 2000;

export class EtcdCluster extends Processes {
  readonly members: Running[] = [];
  readonly urls: string[] = [];
  readonly #args: string[][] = [];

  async start(count: number): Promise<void> {
    const ports: [number, number][] = [];
    for (let i = 0; i < count; i++) ports.push([await freePort("127.0.0.1"), await freePort("127.0.0.1")]);
    const cluster = ports.map(([, peer], i) => `m${i}=http://127.0.0.1:${peer}`).join(",");
    for (const [i, [client, peer]] of ports.entries()) {
      const url = `http://127.0.0.1:${client}`;
      const args = ["--name", `m${i}`, "--data-dir", mkdtempSync(join(tmpdir(), "weighbridge-etcd-")), "--initial-cluster", cluster];
      args.push("--listen-client-urls", url, "--advertise-client-urls", url, "--heartbeat-interval", "40", "--election-timeout", "200");
      args.push("--listen-peer-urls", `http://127.0.0.1:${peer}`, "--initial-advertise-peer-urls", `http://127.0.0.1:${peer}`);
      this.#args.push(args);
      this.members.push(this.run(ETCD, args));
      this.urls.push(url);
    }
    await this.#answers(this.urls);
  }

  /** Starts a member again that was killed, and waits until it answers. */
  async restart(member: Running): Promise<void> {
    const i = this.members.indexOf(member);
    this.members[i] = this.run(ETCD, this.#args[i] ?? []);
    await this.#answers(this.urls.slice(i, i + 1));
  }

  async #answers(urls: readonly string[]): Promise<void> {
    const client = new EtcdClient(urls);
    for (let tries = 0; ; tries++) {
      try {
        await client.list("/weighbridge/");
        return;
      } catch (error) {
        if (tries > 100) throw new Error(this.members.map(({ transcript }) => transcript).join("\n"), { cause: error });
        await sleep(100);
      }
    }
  }

  /** The member that leads among those of etcd. */
  async leadingMember(): Promise<Running> {
    for (const [i, url] of this.urls.entries()) {
      if (this.members[i]?.isRunning !== true) continue;
      const response = await fetch(`${url}/v3/maintenance/status`, { method: "POST", body: "{}" });
      const { header, leader } = (await response.json()) as { header: { member_id: string }; leader: string };
      if (header.member_id === leader) return this.members[i] as Running;
    }
    throw new Error("no member of etcd leads");
  }
}

/** A job with as many schedulers as ports, a server and a worker that pushes. */
export class EtcdJob {
  readonly etcd: EtcdCluster;
  readonly ports: readonly number[];
  readonly flags: readonly (string | number)[];

  constructor(etcd: EtcdCluster, ports: readonly number[]) {
    this.etcd = etcd;
    this.ports = ports;
    const schedulers = ports.map((port) => `127.0.0.1:${port}`).join(",");
    this.flags = ["-s", 1, "-w", 1, "--job", "mnist", "--schedulers", schedulers, "--heartbeat-timeout", "2000ms"];
  }

  scheduler(index: number): Running {
    const own = ["--scheduler-port", this.ports[index] ?? 0, "--etcd", this.etcd.urls.join(","), "--etcd-lease", `${LEASE_MS}ms`];
    return this.etcd.weighbridge(["scheduler", ...this.flags, ...own]);
  }

  server(): Running {
    return this.etcd.weighbridge(["server", ...this.flags]);
  }

  worker(): Running {
    return this.etcd.weighbridge(["worker", ...this.flags, script("pusher"), "--verify"]);
  }

  async status(): Promise<Running> {
    const status = this.etcd.weighbridge(["status", "--schedulers", this.ports.map((port) => `127.0.0.1:${port}`).join(",")]);
    await status.succeeds();
    return status;
  }
}
