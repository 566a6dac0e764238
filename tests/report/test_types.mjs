/* SPDX-License-Identifier: Apache-2.0 */
/* The report's sources have no type errors: esbuild, which builds them, does not look. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const report = resolve(dirname(fileURLToPath(import.meta.url)), '../../tools/report');
const modules = resolve(process.env.TENURE_REPORT_TEST_MODULES);
const folder = mkdtempSync(join(tmpdir(), 'tenure-types-'));
writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({
    extends: join(report, 'tsconfig.json'),
    compilerOptions: { paths: { uplot: [join(modules, 'uplot')] } },
    include: [join(report, 'src')],
}));
const { status, stdout } = spawnSync(process.execPath,
    [join(modules, 'typescript/bin/tsc'), '-p', folder], { encoding: 'utf8' });
rmSync(folder, { recursive: true });
process.stdout.write(stdout);
console.log(status === 0 ? 'no type errors' : 'type errors');
process.exit(status === 0 ? 0 : 1);
