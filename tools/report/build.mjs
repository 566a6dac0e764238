/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the report: one HTML file with its style and script inside, and one empty place for the
 * data of a snapshot.
 *
 *     node build.mjs --modules NODE_MODULES --out FILE --version VERSION
 *
 * The content security policy of the page lets exactly this script and this style run, by their
 * hashes, and connects to nothing: whatever a snapshot contains, it stays text.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const here = dirname(fileURLToPath(import.meta.url));
const { values: options } = parseArgs({
    options: {
        modules: { type: 'string', default: join(here, 'node_modules') },
        out: { type: 'string', default: join(here, 'dist', 'report.html') },
        version: { type: 'string', default: '0' },
    },
});
const modules = resolve(options.modules);
const esbuild = createRequire(join(modules, 'here.js'))('esbuild');

const common = {
    bundle: true, minify: true, write: false, format: 'iife', target: ['es2022'],
    nodePaths: [modules], legalComments: 'none', charset: 'utf8', logLevel: 'warning',
};

/** `import program from 'worker:./x.ts'` is x.ts as the text of a bundle of its own. */
const workerPlugin = {
    name: 'worker',
    setup(build) {
        build.onResolve({ filter: /^worker:/ }, ({ path, resolveDir }) =>
            ({ path: join(resolveDir, path.slice('worker:'.length)), namespace: 'worker' }));
        build.onLoad({ filter: /.*/, namespace: 'worker' }, async ({ path }) => {
            const result = await esbuild.build({ ...common, entryPoints: [path] });
            return { contents: result.outputFiles[0].text, loader: 'text' };
        });
    },
};

async function bundle(entry, extra = {}) {
    const result = await esbuild.build({ ...common, ...extra, entryPoints: [entry] });
    return result.outputFiles[0].text.trim();
}

/** An inline script ends at the first "</script", wherever that stands. */
function inlineSafe(script) {
    return script.replaceAll('</script', '<\\/script').replaceAll('<!--', '<\\!--');
}

const hash = (text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

const script = inlineSafe(await bundle(join(here, 'src/main.ts'), { plugins: [workerPlugin] }));
const uplotStyle = readFileSync(join(modules, 'uplot/dist/uPlot.min.css'), 'utf8');
const style = (await esbuild.transform(
    `${uplotStyle}\n${readFileSync(join(here, 'src/style.css'), 'utf8')}`,
    { loader: 'css', minify: true, legalComments: 'none', target: ['es2022'] })).code.trim();

const policy = [
    "default-src 'none'", `script-src ${hash(script)} blob:`, `style-src ${hash(style)}`,
    "worker-src blob:", "img-src data:", "base-uri 'none'", "form-action 'none'",
].join('; ');

// The licence of uPlot (MIT) asks for its notice wherever the program goes.
const notice = readFileSync(join(modules, 'uplot/LICENSE'), 'utf8').trim();
const parts = { CSP: policy, VERSION: options.version, STYLE: style, SCRIPT: script };
const page = readFileSync(join(here, 'src/report.html'), 'utf8')
    .replace(/@(CSP|VERSION|STYLE|SCRIPT)@/g, (_whole, name) => parts[name])
    .replace('<head>', () => `<head>\n<!--\nTenure's memory report. The charts are drawn by ` +
        `uPlot:\n\n${notice}\n-->`);
mkdirSync(dirname(options.out), { recursive: true });
writeFileSync(options.out, page);
console.log(`${options.out}: ${(page.length / 1024).toFixed(0)} KiB`);
