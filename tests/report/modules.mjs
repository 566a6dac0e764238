/* SPDX-License-Identifier: Apache-2.0 */
/* The report's modules, as ones that node can load, and snapshots for them to read. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const source = resolve(here, '../../tools/report/src');
export const folder = mkdtempSync(join(tmpdir(), 'tenure-data-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));

export async function loadModules(...names) {
    const modules = resolve(process.env.TENURE_REPORT_MODULES);
    const esbuild = createRequire(join(modules, 'here.js'))('esbuild');
    const out = join(folder, `${names.join('-').replaceAll('/', '_')}.mjs`);
    await esbuild.build({
        stdin: {
            contents: names.map((name) => `export * from './${name}.ts';`).join('\n'),
            resolveDir: source, loader: 'ts',
        },
        bundle: true, format: 'esm', outfile: out, target: 'es2022', logLevel: 'warning',
    });
    return import(pathToFileURL(out));
}

/** The text of a snapshot of a program that never ran: make_snapshot.py. */
export function generated(...options) {
    const path = join(folder, `s${options.join('')}.json`);
    execFileSync(process.env.TENURE_PYTHON ?? 'python3',
        ['-B', join(here, 'make_snapshot.py'), path, ...options]);
    return readFileSync(path, 'utf8');
}

export const exampleText = readFileSync(resolve(here, '../snapshot/example.json'), 'utf8');
