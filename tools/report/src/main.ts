/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page: reads the snapshot that is embedded, or lets one be opened; holds the views and shows
 * one of them; keys. A view is made the first time it is shown and again when the device, the
 * snapshot or the one to compare with changes.
 */
import { App, makeContext, Target, View, ViewName, VIEWS } from './app.js';
import { About, embeddedAbout } from './data/about.js';
import { embeddedFindings, Findings } from './data/findings.js';
import { embedded, load } from './data/load.js';
import { Device, Snapshot, SnapshotError } from './data/model.js';
import { Source } from './data/read.js';
import { byId, el, fill, oncePerFrame } from './ui/dom.js';
import { ThemeSwitch } from './ui/theme.js';
import { hideTip } from './ui/tip.js';
import { count } from './text/units.js';
import { CompareView } from './view/compare.js';
import { FindingsView } from './view/findings.js';
import { GraphsView } from './view/graphs.js';
import { showHelp } from './view/help.js';
import { HoldersView } from './view/holders.js';
import { LanesView } from './view/lanes.js';
import { MapView } from './view/map.js';
import { RecordsView } from './view/records.js';
import { Search } from './view/search.js';
import { drawSummary } from './view/summary.js';
import { TimelineView } from './view/timeline.js';
import { WaitingView } from './view/waiting.js';
import { WasteView } from './view/waste.js';

const VIEW_CLASSES: Record<ViewName, new (app: App) => View> = {
    timeline: TimelineView, lanes: LanesView, map: MapView, holders: HoldersView,
    waiting: WaitingView, graphs: GraphsView, records: RecordsView, compare: CompareView,
    findings: FindingsView, waste: WasteView,
};
const VIEW_TITLES: Record<ViewName, string> = {
    timeline: 'Timeline', lanes: 'Lanes', map: 'Address map', holders: 'Holders',
    waiting: 'Waiting',
    graphs: 'Graphs', records: 'History', compare: 'Compare',
    findings: 'Findings', waste: 'Idle memory',
};

class Page {
    private app: App | null = null;
    private readonly views = new Map<ViewName, View>();
    private current: ViewName = 'timeline';
    /** Of the run that the embedded snapshot is from, so of no other one that is opened. */
    private findings: Findings | null = null;
    private about: About | null = null;
    /** Whether the file that is being chosen is the one to compare with. */
    private choosingOther = false;
    /** Whether stacks are named by all their frames, not by those of the program's code alone. */
    private allFrames = false;
    private readonly search = new Search(() => this.app);
    private readonly theme = new ThemeSwitch(byId('theme'), () => this.redraw());

    constructor() {
        const file = byId('file') as HTMLInputElement;
        file.addEventListener('change', () => {
            if (file.files?.[0]) {
                void this.open({ name: file.files[0].name, file: file.files[0] },
                    this.choosingOther);
            }
            file.value = '';
        });
        byId('open').addEventListener('click', () => this.chooseFile(false));
        byId('empty-open').addEventListener('click', () => this.chooseFile(false));
        byId('help').addEventListener('click', () => showHelp(this.app));
        byId('frames').addEventListener('click', () => this.switchFrames());
        document.addEventListener('keydown', (event) => this.key(event));
        window.addEventListener('resize', oncePerFrame(() => this.redraw()));
        window.addEventListener('hashchange', () => this.followHash());
        this.listenForDrops();
    }

    /* ---- opening ---- */

    private chooseFile(other: boolean): void {
        this.choosingOther = other;
        byId('file').click();
    }

    private listenForDrops(): void {
        const dropping = (on: boolean) => document.body.classList.toggle('dropping', on);
        document.addEventListener('dragover', (event) => {
            event.preventDefault();
            dropping(true);
        });
        document.addEventListener('dragleave', (event) => {
            if (!event.relatedTarget) {
                dropping(false);
            }
        });
        document.addEventListener('drop', (event) => {
            event.preventDefault();
            dropping(false);
            const file = event.dataTransfer?.files[0];
            if (file) {
                void this.open({ name: file.name, file }, this.app !== null);
            }
        });
    }

    private progress(what: string, part: number): void {
        byId('loading-text').textContent = `${what} the snapshot\u2026`;
        (byId('loading-progress') as HTMLProgressElement).value = Math.round(100 * part);
    }

    private show(section: 'loading' | 'empty' | 'report'): void {
        for (const id of ['loading', 'empty', 'report']) {
            byId(id).hidden = id !== section;
        }
    }

    async open(source: Source, other = false): Promise<void> {
        this.show('loading');
        this.progress('Reading', 0);
        try {
            const snapshot = await load(source, (what, part) => this.progress(what, part));
            if (other && this.app) {
                this.compareWith(snapshot);
            } else {
                this.present(snapshot, source.name);
            }
        } catch (error) {
            this.fail(error);
        }
    }

    private fail(error: unknown): void {
        const text = error instanceof SnapshotError ? error.message
            : `Something went wrong in the report: ${String(error)}`;
        if (this.app) {
            this.show('report');
            byId('summary').prepend(el('p', { class: 'problem', role: 'alert' }, text));
            return;
        }
        this.show('empty');
        byId('empty-error').textContent = text;
        byId('empty-error').hidden = false;
    }

    nothingEmbedded(): void {
        this.show('empty');
    }

    async openEmbedded(source: Source, findings: Findings | null, about: About | null):
        Promise<void> {
        this.findings = findings;
        this.about = about;
        await this.open(source);
        this.findings = this.about = null;
    }

    private present(snapshot: Snapshot, file: string): void {
        const busiest = snapshot.devices.reduce((a, b) =>
            b.reservedBytes > a.reservedBytes ? b : a);
        this.setApp(snapshot, busiest, null, this.findings, this.about);
        this.search.enable();
        byId('frames').hidden = snapshot.shown === null;
        this.fillDevices();
        const name = this.about?.title || snapshot.program || file || 'snapshot';
        document.title = `${name}: memory report`;
        byId('source').textContent = this.about?.title || snapshot.pid <= 0 ? name
            : `${name}, process ${snapshot.pid}`;
        this.show('report');
        this.followHash();
    }

    private compareWith(other: Snapshot): void {
        const app = this.app!;
        this.setApp(app.snapshot, app.device, other, app.findings, app.about);
        this.show('report');
        this.go('compare', {});
    }

    private setApp(snapshot: Snapshot, device: Device, other: Snapshot | null,
        findings: Findings | null, about: About | null): void {
        this.app = {
            ...makeContext(snapshot, device, this.allFrames), allFrames: this.allFrames, other,
            findings, about,
            go: (view, target) => this.go(view, target ?? {}),
            openOther: () => this.chooseFile(true),
        };
        this.views.clear();
        fill(byId('panels'));
        fill(byId('summary'), ...drawSummary(this.app));
        this.drawTabs();
    }

    private switchFrames(): void {
        const { snapshot, device, other, findings, about } = this.app!;
        this.allFrames = !this.allFrames;
        byId('frames').setAttribute('aria-pressed', String(this.allFrames));
        this.setApp(snapshot, device, other, findings, about);
        this.go(this.current, {});
    }

    private fillDevices(): void {
        const { snapshot, device, other } = this.app!;
        const select = byId('device') as HTMLSelectElement;
        byId('device-label').hidden = snapshot.devices.length < 2;
        fill(select, ...snapshot.devices.map(({ index, name }) =>
            el('option', { value: index, selected: index === device.index }, `${index} ${name}`)));
        select.onchange = () => {
            const chosen = snapshot.devices.find(({ index }) => index === Number(select.value))!;
            this.setApp(snapshot, chosen, this.app?.other ?? other, this.app?.findings ?? null,
                this.app?.about ?? null);
            this.go(this.current, {});
        };
    }

    /* ---- views ---- */

    /** The views that have something to show. */
    private get offered(): readonly ViewName[] {
        const { findings } = this.app ?? {};
        return VIEWS.filter((view) => view === 'findings' ? findings?.isChecked
            : view !== 'waste' || findings?.waste);
    }

    private tabCount(view: ViewName): number | null {
        const { device, accounting, findings } = this.app!;
        switch (view) {
        case 'waiting': return accounting.waitingBlocks;
        case 'graphs': return device.graphs.length;
        case 'records': return device.history.length;
        case 'map': return device.blocks.length;
        case 'findings': return findings?.list.length ?? null;
        case 'waste': return findings?.waste?.places.filter((one) => one.worth).length ?? null;
        default: return null;
        }
    }

    private drawTabs(): void {
        fill(byId('tabs'), ...this.offered.map((view) => {
            const number = this.tabCount(view);
            return el('button', {
                type: 'button', role: 'tab', id: `tab-${view}`, 'aria-controls': `panel-${view}`,
                'aria-selected': String(view === this.current),
                tabindex: view === this.current ? 0 : -1, onclick: () => this.go(view, {}),
                onkeydown: (event: KeyboardEvent) => this.tabKey(event, view),
            }, VIEW_TITLES[view],
            number !== null && el('span', { class: 'count' }, count(number)));
        }));
    }

    private tabKey(event: KeyboardEvent, view: ViewName): void {
        const views = this.offered;
        const index = views.indexOf(view);
        const target = event.key === 'ArrowRight' ? (index + 1) % views.length
            : event.key === 'ArrowLeft' ? (index + views.length - 1) % views.length
                : event.key === 'Home' ? 0 : event.key === 'End' ? views.length - 1 : -1;
        if (target >= 0) {
            event.preventDefault();
            event.stopPropagation();
            this.go(views[target]!, {});
            byId(`tab-${views[target]}`).focus();
        }
    }

    private followHash(): void {
        const named = this.offered.find((view) => `#${view}` === location.hash);
        if (this.app && (named ?? 'timeline') !== this.current || this.views.size === 0) {
            this.go(named ?? 'timeline', {});
        }
    }

    private go(name: ViewName, target: Target): void {
        if (!this.app) {
            return;
        }
        this.current = name;
        hideTip();
        for (const view of this.offered) {
            const tab = byId(`tab-${view}`);
            tab.setAttribute('aria-selected', String(view === name));
            tab.tabIndex = view === name ? 0 : -1;
        }
        byId(`tab-${name}`).scrollIntoView({ block: 'nearest', inline: 'nearest' });
        let view = this.views.get(name);
        if (!view) {
            view = new VIEW_CLASSES[name](this.app);
            this.views.set(name, view);
            view.root.classList.add('panel');
            view.root.id = `panel-${name}`;
            view.root.setAttribute('role', 'tabpanel');
            view.root.setAttribute('aria-labelledby', `tab-${name}`);
            byId('panels').append(view.root);
        }
        for (const [other, { root }] of this.views) {
            root.hidden = other !== name;
        }
        if (location.hash !== `#${name}`) {
            history.replaceState(null, '', `#${name}`);
        }
        view.shown?.(target);
    }

    private redraw(): void {
        this.views.get(this.current)?.redraw?.();
        // The others draw anew when they come up: their sizes and colours are old.
        for (const [name, view] of this.views) {
            if (name !== this.current && view.redraw) {
                view.root.remove();
                this.views.delete(name);
            }
        }
    }

    /* ---- keys ---- */

    private key(event: KeyboardEvent): void {
        const target = event.target as HTMLElement;
        const typing = target.matches('input:not([type="radio"]), select, textarea');
        if (typing || event.ctrlKey || event.metaKey || event.altKey ||
            (byId('help-dialog') as HTMLDialogElement).open) {
            return;
        }
        // In a group of choices the arrows choose.
        if (target.matches('input') && event.key.startsWith('Arrow')) {
            return;
        }
        if (this.pageKey(event.key) || this.views.get(this.current)?.key?.(event)) {
            event.preventDefault();
        }
    }

    private pageKey(key: string): boolean {
        if (key === '?') {
            showHelp(this.app);
        } else if (key === '/') {
            byId('search').focus();
        } else if (key === 't') {
            this.theme.next();
        } else if (key === 'o') {
            this.chooseFile(false);
        } else if (this.app && /^[1-9]$/.test(key) && Number(key) <= this.offered.length) {
            this.go(this.offered[Number(key) - 1]!, {});
        } else {
            return false;
        }
        return true;
    }
}

async function start(): Promise<void> {
    const page = new Page();
    const source = embedded('');
    const other = embedded('-b');
    if (!source) {
        page.nothingEmbedded();
        return;
    }
    await page.openEmbedded(source, embeddedFindings(), embeddedAbout());
    if (other) {
        await page.open(other, true);
    }
}

if (document.readyState === 'loading') {
    document.addEventListener('DOMContentLoaded', () => void start());
} else {
    void start();
}
