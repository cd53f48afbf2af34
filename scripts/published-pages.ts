// published-pages — the documents that users of the package read, with the pictures that they show. A link to what only
// the repository has becomes its text.

import { cpSync, existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";

const PAGES = [
  ...["README.md", "CHANGELOG.md", "docs/*.md", "docs/guides/*.md", "examples/**/*.{md,ts}", "bench/RESULTS.md"],
  ...["spec/consistency.md", "spec/checkpoint.md", "spec/codecs.md", "templates/*/*"],
];
/** `[text](target)`, and `![text](picture)`. */
const LINK = /(!?)\[((?:[^[\]]|\[[^\]]*\])*)\]\(((?!https?:|#)[^)\s]+)\)/g;
const PICTURE = /!\[[^\]]*\]\(((?!https?:)[^)\s]+)\)|<img[^>]*\ssrc="((?!https?:)[^"]+)"/g;

export function copyPages(root: string, dist: string): void {
  const pages = globSync(PAGES, { cwd: root }).map((path) => path.replaceAll("\\", "/"));
  const texts = new Map(pages.map((page) => [page, readFileSync(join(root, page), "utf8")]));
  for (const [page, text] of texts) {
    for (const [, ...paths] of page.endsWith(".md") ? text.matchAll(PICTURE) : []) {
      const picture = posix.join(posix.dirname(page), paths.find((path) => path !== undefined) ?? "");
      // test/docs.test.ts tells of one that is missing.
      if (existsSync(join(root, picture))) cpSync(join(root, picture), join(dist, picture));
    }
  }
  for (const [page, text] of texts) {
    mkdirSync(dirname(join(dist, page)), { recursive: true });
    writeFileSync(join(dist, page), page.endsWith(".md") ? withoutDeadLinks(page, text, dist, texts) : text);
  }
}

function withoutDeadLinks(page: string, text: string, dist: string, pages: ReadonlyMap<string, string>): string {
  return text.replaceAll(LINK, (link: string, picture: string, label: string, target: string) => {
    const path = posix.join(posix.dirname(page), target.replace(/#.*$/, "")).replace(/\/$/, "");
    const isThere = pages.has(path) || existsSync(join(dist, path)) || [...pages.keys()].some((other) => other.startsWith(`${path}/`));
    return picture !== "" || isThere ? link : label;
  });
}
