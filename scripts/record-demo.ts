// record-demo — makes docs/demo.svg, the picture at the top of README: a real run in which a server is killed and the
// training continues. Every line was printed by the run, and appears as long after its start as it did there; most
// lines of the report at the end are left out.
//   npx node scripts/record-demo.ts [FILE]
// Without animation (prefers-reduced-motion, a viewer that shows a still) the picture is the end of the run.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const ROOT = join(import.meta.dirname, "..");
const COMMAND = ["train", "lenet", "--servers", "1", "--replicas", "2", "--limit", "30000"] as const;
/** The server is killed once this was printed. */
const KILL_AT = /step: 200,/;
const READY_SERVER = /^\s*server\/0 ready\b.*\bpid (\d+)/;
/** Lines that a viewer needs; docs/guides/first-run.md shows the rest. */
const SHOWN = [
  /^ {2}cluster {2}/,
  /^ {2}data {5}/,
  /ready\b/,
  /step: \d+00,/,
  /standby|took over|taken over|lost/i,
  /steps in/,
  /^ {2}accuracy {2}/,
  /^ {2}checkpoint {2}/,
];
const LINES_MAX = 24;
const COLUMNS = 92;
const [FONT_PX, LINE_PX, CHAR_PX, MARGIN_PX] = [14, 20, 8.43, 18];
/** The end stays for a while before the picture begins again. */
const END_S = 5;

type Line = { readonly atMs: number; readonly text: string; readonly kind: "prompt" | "plain" | "good" | "bad" };

async function record(): Promise<readonly Line[]> {
  const folder = mkdtempSync(join(tmpdir(), "weighbridge-demo-"));
  const lines: Line[] = [{ atMs: 0, text: `$ npx weighbridge ${COMMAND.join(" ")}`, kind: "prompt" }];
  const startedAtMs = performance.now();
  const add = (text: string, kind: Line["kind"]): void => void lines.push({ atMs: performance.now() - startedAtMs, text, kind });
  const bin = join(ROOT, "bin", "weighbridge.mjs");
  const run = spawn(process.execPath, [bin, ...COMMAND, "--checkpoint-dir", folder], { cwd: ROOT, stdio: ["ignore", "pipe", "pipe"] });
  const ended = new Promise<number | null>((resolve) => run.once("close", resolve));
  let server: number | undefined;
  let isKilled = false;
  const read = (text: string): void => {
    if (SHOWN.some((shown) => shown.test(text))) add(text.replace(folder, ".weighbridge/lenet"), kindOf(text));
    server ??= Number(READY_SERVER.exec(text)?.[1]) || undefined;
    if (isKilled || server === undefined || !KILL_AT.test(text)) return;
    isKilled = true;
    add(`$ kill -9 ${server}    # server/0, from another terminal`, "prompt");
    process.kill(server, "SIGKILL");
  };
  for (const stream of [run.stdout, run.stderr]) createInterface({ input: stream }).on("line", read);
  const code = await ended;
  rmSync(folder, { recursive: true, force: true });
  if (code !== 0 || !isKilled) throw new Error(`the run ended with ${code}, ${isKilled ? "its server killed" : "no server killed"}`);
  for (const { text } of lines) if (text.length >= COLUMNS) throw new Error(`the picture has room for ${COLUMNS} columns: ${text}`);
  if (lines.length > LINES_MAX) throw new Error(`${lines.length} lines, and the picture has room for ${LINES_MAX}`);
  return lines;
}

function kindOf(text: string): Line["kind"] {
  if (/warn|lost|dead|killed/i.test(text)) return "bad";
  return /accuracy|ready|✓|took over|taken over/i.test(text) ? "good" : "plain";
}

function pictureOf(lines: readonly Line[]): string {
  const [width, height] = [Math.ceil(COLUMNS * CHAR_PX + 2 * MARGIN_PX), lines.length * LINE_PX + 2 * MARGIN_PX];
  const secondsOf = ({ atMs }: Line): number => atMs / 1000;
  const totalS = secondsOf(lines.at(-1) as Line) + END_S;
  const rules = lines.map((line, i) => {
    const percent = ((100 * secondsOf(line)) / totalS).toFixed(2);
    return `@keyframes l${i}{0%{opacity:0}${percent}%{opacity:0;animation-timing-function:step-end}${Number(percent) + 0.01}%{opacity:1}100%{opacity:1}}`;
  });
  const texts = lines.map(({ text, kind }, i) => {
    const y = MARGIN_PX + (i + 0.75) * LINE_PX;
    return `  <text class="${kind}" x="${MARGIN_PX}" y="${y}" xml:space="preserve" style="animation-name:l${i}">${escaped(text)}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="title">
  <title id="title">A terminal: a cluster trains LeNet-5, one of its servers is killed, and the training continues</title>
  <style>
    rect { fill: #10151c; }
    text { font: ${FONT_PX}px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #c9d1d9; white-space: pre; animation: ${totalS.toFixed(1)}s linear infinite; }
    .prompt { fill: #f0f6fc; font-weight: 700; }
    .good { fill: #56d364; }
    .bad { fill: #ff9492; }
    ${rules.join("\n    ")}
    @media (prefers-reduced-motion: reduce) { text { animation: none; } }
  </style>
  <rect width="${width}" height="${height}" rx="8"/>
${texts.join("\n")}
</svg>
`;
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

const [file = join(ROOT, "docs", "demo.svg")] = process.argv.slice(2);
writeFileSync(file, pictureOf(await record()));
