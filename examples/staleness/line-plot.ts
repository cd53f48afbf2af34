// line-plot — curves over time as an SVG picture: one line with markers for each series, axes with units, a legend. It
// follows the reader's choice of a light or dark page.

export type Series = {
  readonly name: string;
  /** In seconds and in the unit of the plot. */
  readonly points: readonly { readonly x: number; readonly y: number }[];
};

export type PlotTexts = {
  readonly title: string;
  readonly subtitle: string;
  readonly x: string;
  readonly y: string;
};

const [WIDTH, HEIGHT] = [760, 440];
const [LEFT, RIGHT, TOP, BOTTOM] = [76, 24, 104, 60];
/** Up to so many markers on a line, so that they do not touch. */
const MARKERS = 14;
/** Series are told apart by colour and by the shape of their markers. */
const SHAPES = [
  (x: number, y: number) => `<circle cx="${round(x)}" cy="${round(y)}" r="4"/>`,
  (x: number, y: number) => `<rect x="${round(x - 3.6)}" y="${round(y - 3.6)}" width="7.2" height="7.2"/>`,
  (x: number, y: number) => `<path d="M${round(x)} ${round(y - 5)}l4.8 8.4h-9.6z"/>`,
];
type Palette = {
  readonly page: string;
  readonly text: string;
  readonly quiet: string;
  readonly grid: string;
  readonly series: readonly string[];
};
const LIGHT: Palette = { page: "#fcfcfb", text: "#1b1b1a", quiet: "#5f5e5a", grid: "#e3e2dd", series: ["#2a6fbb", "#c05621", "#1a7f5a"] };
const DARK: Palette = { page: "#1a1a19", text: "#f2f1ec", quiet: "#b4b2a9", grid: "#3a3936", series: ["#6aa9ee", "#f0925a", "#4dc495"] };
const STYLE = `
  svg { color-scheme: light dark }
  text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif }
  .title { font-size: 17px; font-weight: 600 }
  .end { text-anchor: end } .middle { text-anchor: middle }
  .line { fill: none; stroke-width: 2; stroke-linejoin: round }
  ${coloursOf(LIGHT)}
  @media (prefers-color-scheme: dark) {
    ${coloursOf(DARK)}
  }
`;

/** Plain colours: viewers other than browsers know no variables in styles, and draw everything black. */
function coloursOf({ page, text, quiet, grid, series }: Palette): string {
  const common = `text { fill: ${quiet} } .title, .name { fill: ${text} } .page { fill: ${page} } .grid { stroke: ${grid} } .axis { stroke: ${quiet} }`;
  return [common, ...series.map((c, i) => `.s${i} { stroke: ${c} } .m${i} { fill: ${c}; stroke: ${page}; stroke-width: 1.2 }`)].join(" ");
}

export function linePlot(series: readonly Series[], { title, subtitle, x, y }: PlotTexts): string {
  const all = series.flatMap(({ points }) => points);
  const across = ticksOf(0, Math.max(...all.map((point) => point.x)));
  const up = ticksOf(Math.min(...all.map((point) => point.y)), Math.max(...all.map((point) => point.y)));
  const atX = (value: number): number => LEFT + (value / across.to) * (WIDTH - LEFT - RIGHT);
  const atY = (value: number): number => HEIGHT - BOTTOM - ((value - up.from) / (up.to - up.from)) * (HEIGHT - TOP - BOTTOM);
  const bottom = HEIGHT - BOTTOM;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${escaped(`${title}. ${subtitle}`)}">`,
    `<style>${STYLE}</style>`,
    `<rect class="page" width="${WIDTH}" height="${HEIGHT}"/>`,
    `<text class="title" x="${LEFT}" y="30">${escaped(title)}</text>`,
    `<text x="${LEFT}" y="51">${escaped(subtitle)}</text>`,
    ...legendOf(series),
    ...up.values.map((value) => {
      const at = round(atY(value));
      return `<path class="grid" d="M${LEFT} ${at}H${WIDTH - RIGHT}"/><text class="end" x="${LEFT - 9}" y="${at + 4.5}">${up.show(value)}</text>`;
    }),
    ...across.values.map((value) => {
      const at = round(atX(value));
      return `<path class="axis" d="M${at} ${bottom}v5"/><text class="middle" x="${at}" y="${bottom + 21}">${across.show(value)}</text>`;
    }),
    `<path class="axis" d="M${LEFT} ${bottom}H${WIDTH - RIGHT}"/>`,
    `<text class="middle" x="${(LEFT + WIDTH - RIGHT) / 2}" y="${HEIGHT - 14}">${escaped(x)}</text>`,
    `<text class="middle" transform="translate(18 ${(TOP + bottom) / 2}) rotate(-90)">${escaped(y)}</text>`,
    ...series.map(({ points }, i) => {
      const path = points.map((point, at) => `${at === 0 ? "M" : "L"}${round(atX(point.x))} ${round(atY(point.y))}`).join("");
      const marked = points.filter((_, at) => at === points.length - 1 || at % Math.ceil(points.length / MARKERS) === 0);
      const markers = marked.map((point) => shapeOf(i)(atX(point.x), atY(point.y)));
      return `<path class="line s${i % SHAPES.length}" d="${path}"/><g class="m${i % SHAPES.length}">${markers.join("")}</g>`;
    }),
    "</svg>\n",
  ].join("\n");
}

function legendOf(series: readonly Series[]): string[] {
  const each = (WIDTH - LEFT - RIGHT) / Math.max(3, series.length);
  return series.map(({ name }, i) => {
    const x = LEFT + i * each;
    const line = `<path class="line s${i % SHAPES.length}" d="M${round(x)} 76h26"/>`;
    return `${line}<g class="m${i % SHAPES.length}">${shapeOf(i)(x + 13, 76)}</g><text class="name" x="${round(x + 34)}" y="80.5">${escaped(name)}</text>`;
  });
}

type Ticks = { readonly from: number; readonly to: number; readonly values: readonly number[]; show(value: number): string };

/** About six round numbers that have all of the range between them. */
function ticksOf(least: number, most: number): Ticks {
  const rough = (most - least || 1) / 6;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough) as number);
  const [first, last] = [Math.floor(least / step), Math.ceil(most / step)];
  let digits = 0;
  while (Math.abs(step * 10 ** digits - Math.round(step * 10 ** digits)) > 1e-9) digits++;
  const values = Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
  return { from: first * step, to: last * step, values, show: (value) => value.toFixed(digits).replace("-", "−") };
}

function shapeOf(index: number): (x: number, y: number) => string {
  return SHAPES[index % SHAPES.length] as (x: number, y: number) => string;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
}
