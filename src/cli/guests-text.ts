// guests-text — the guests of a cluster, tools among them, as `weighbridge status` shows them below its nodes. Pure.

import { processText } from "../node/output-name.ts";
import type { GuestStatus } from "../wire/control.ts";
import { nameOf } from "../wire/node-id.ts";
import { countText, durationText, textTable } from "./terminal-text.ts";

/** Of hundreds the first ones are enough; the JSON has all. */
const SHOWN_MAX = 20;
const HEAD = ["guest", "process", "here for", "heartbeat", "link"] as const;

/** "" without guests. */
export function guestsText(guests: readonly GuestStatus[] = [], columns: number = Infinity): string {
  if (guests.length === 0) return "";
  const shown = guests.slice(0, SHOWN_MAX).map(({ node, command = "", label, hereMs, heartbeatAgeMs, linked }) => {
    const here = hereMs === undefined ? "longer than the scheduler" : durationText(hereMs);
    const name = node === undefined ? `tool: ${command}` : nameOf(node);
    return [name, processText(label) || "-", here, `${durationText(heartbeatAgeMs)} ago`, linked ? "yes" : "no"];
  });
  const others = guests.length - shown.length;
  const more = others === 0 ? "" : `\n… and ${others} more`;
  const table = textTable({ head: HEAD, rows: shown, rightAligned: new Set(["here for", "heartbeat"]), columns });
  return `\n\n${countText(guests.length, "guest")}\n${table}${more}`;
}
