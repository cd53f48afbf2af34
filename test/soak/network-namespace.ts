// network-namespace — a network namespace of Linux with one link to the rest of the machine, which can be cut:
// what runs in it reaches nothing then, and is not told. Needs root and Debian's iproute2.

import { execFileSync, spawnSync } from "node:child_process";

/** Why tests that cut links are skipped here, if so. */
export const NO_NAMESPACES: string | false = whyNot();

function whyNot(): string | false {
  if (process.platform !== "linux") return "network namespaces are Linux's";
  if (process.getuid?.() !== 0) return "network namespaces need root";
  const made = spawnSync("unshare", ["-n", "true"]);
  if (made.status !== 0) return "network namespaces cannot be made here";
  return spawnSync("ip", ["-V"]).status !== 0 && "there is no ip: apt-get install iproute2";
}

function ip(...args: readonly string[]): void {
  execFileSync("ip", args, { stdio: "pipe" });
}

function linkName(number: number): string {
  return `weighbridge${number}`;
}

const LINKS_MAX = 64;
let made = 0;

export class NetworkNamespace implements Disposable {
  readonly name: string;
  /** The address of the machine at the link. */
  readonly outside: string;
  /** The address of what runs in the namespace. */
  readonly inside: string;
  readonly #link: string = "";

  /** Throws what `ip` says if no link can be made. */
  constructor() {
    this.name = `weighbridge-${process.pid}-${made++}`;
    ip("netns", "add", this.name);
    try {
      const number = this.#makeLink();
      this.#link = linkName(number);
      // 198.51.100.0/24 is for documentation: no machine has an address there
      [this.outside, this.inside] = [`198.51.100.${4 * number + 1}`, `198.51.100.${4 * number + 2}`];
      ip("address", "add", `${this.outside}/30`, "dev", this.#link);
      ip("link", "set", this.#link, "up");
      ip("-n", this.name, "address", "add", `${this.inside}/30`, "dev", "cut");
      ip("-n", this.name, "link", "set", "lo", "up");
      ip("-n", this.name, "link", "set", "cut", "up");
    } catch (error) {
      this[Symbol.dispose]();
      throw error;
    }
  }

  /** A link that no other namespace has; its number gives its addresses. */
  #makeLink(): number {
    for (let number = 0; ; number++)
      try {
        ip("link", "add", linkName(number), "type", "veth", "peer", "name", "cut", "netns", this.name);
        return number;
      } catch (error) {
        if (number === LINKS_MAX - 1) throw error;
      }
  }

  /** The command that runs `command` in it, as the same process. */
  within(...command: readonly string[]): readonly string[] {
    return ["ip", "netns", "exec", this.name, ...command];
  }

  cut(): void {
    ip("-n", this.name, "link", "set", "cut", "down");
  }

  heal(): void {
    ip("-n", this.name, "link", "set", "cut", "up");
  }

  /** What still runs in it has no link then; its end of the link goes with the other one. */
  [Symbol.dispose](): void {
    if (this.#link !== "") spawnSync("ip", ["link", "delete", this.#link]);
    spawnSync("ip", ["netns", "delete", this.name]);
  }
}
