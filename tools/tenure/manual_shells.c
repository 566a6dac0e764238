/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completions: what each shell reads. All three find the command from the words so far. They offer
 * its options, or the commands of a group, and elsewhere files. None needs a package besides the
 * shell.
 */
#include "manual.h"

#include <string.h>

#include <tenure/alloc.h>

/* Right behind "tenure": "snapshot convert"; empty for the program itself. */
static const char *path_inside(const manual_entry *entry)
{
    const char *space = strchr(entry->path, ' ');
    return space ? space + 1 : "";
}

/* The help in one line, without what ends a word in quotation marks of any shell. `special` are
 * characters before which a backslash is put. */
static void help_line_print(const char *help, const char *special, FILE *file)
{
    for (; *help; help++) {
        if (*help == '\n')
            fputc(' ', file);
        else if (*help == '\'')
            fputs("\xe2\x80\x99", file); /* a real apostrophe */
        else if (strchr(special, *help))
            fprintf(file, "\\%c", *help);
        else
            fputc(*help, file);
    }
}

/* The words that a description lists behind "Commands:", one a line: "  trim [SIZE]   what it
 * does". From `at` (null: from the beginning) to the next; null behind the last. */
typedef struct listed_word {
    const char *name;
    int name_length;
    char help[128];
} listed_word;

static const char *listed_next(const cli_syntax *syntax, const char *at, listed_word *word)
{
    static const char title[] = "Commands:\n";
    if (!at) {
        at = syntax->description ? strstr(syntax->description, title) : NULL;
        at = at ? at + sizeof(title) - 1 : "";
    }
    const char *end = strchr(at, '\n');
    if (strncmp(at, "  ", 2) != 0 || !end)
        return NULL;
    word->name = at + 2;
    word->name_length = (int)strcspn(word->name, " \n");
    const char *help = strstr(word->name, "  ");
    help = help && help < end ? help + strspn(help, " ") : end;
    snprintf(word->help, sizeof(word->help), "%.*s", (int)(end - help), help);
    return end + 1;
}

static void listed_print(const cli_syntax *syntax, FILE *file)
{
    listed_word word;
    const char *between = "";
    for (const char *at = NULL; (at = listed_next(syntax, at, &word)) != NULL; between = " ")
        fprintf(file, "%s%.*s", between, word.name_length, word.name);
}

/* 1 if the option's value is settings, "key:value,key:value". */
static int takes_settings(const cli_option *option)
{
    return option->text && strcmp(option->name, "conf") == 0;
}

/* The names of all settings, each with what ends it. */
static void settings_print(const char *end, FILE *file)
{
    for (size_t i = 0;; i++) {
        tnr_setting_info info = {.struct_bytes = sizeof(info)};
        if (tnr_setting_get(&info, i) != TNR_OK)
            break;
        fprintf(file, "%s%s%s", i > 0 ? " " : "", info.key, end);
    }
}

/* ---- bash ----------------------------------------------------------------------------------- */

static void bash_words_print(const manual_entry *entry, FILE *file)
{
    if (entry->group)
        for (const cli_command *command = entry->group->commands; command->name; command++)
            fprintf(file, "%s ", command->name);
    else
        for (const cli_option *option = entry->syntax->options; option->name; option++)
            fprintf(file, "--%s ", option->name);
    fputs("--help", file);
}

static void bash_values_print(const manual_entry *entry, FILE *file)
{
    fputs("            files='", file);
    for (const cli_option *option = entry->syntax->options; option->name; option++)
        if (manual_takes_file(option))
            fprintf(file, " --%s ", option->name);
    fputs("'\n            values='", file);
    for (const cli_option *option = entry->syntax->options; option->name; option++)
        if (!option->flag && !manual_takes_file(option))
            fprintf(file, " --%s ", option->name);
    fputs("'\n", file);
}

static void bash_settings_print(FILE *file)
{
    fputs("    local settings='", file);
    settings_print("", file);
    fputs("'\n"
          "    if [[ $before == --conf ]]; then\n"
          "        mapfile -t COMPREPLY < <(compgen -P \"${word%\"${word##*,}\"}\" -S : \\\n"
          "            -W \"$settings\" -- \"${word##*,}\")\n"
          "        compopt -o nospace 2>/dev/null\n"
          "        return\n"
          "    fi\n",
          file);
}

void manual_bash_print(const manual_tables *tables, FILE *file)
{
    fputs("# Written by `tenure manual`, from the command's own tables.\n"
          "_tenure() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
          "    local path='' words='' files='' values='' listed='' is_group='' i\n"
          "    COMPREPLY=()\n",
          file);
    bash_settings_print(file);
    fputs("    for ((i = 1; i < COMP_CWORD; i++)); do\n"
          "        if [[ $path == run && ${COMP_WORDS[i]} == -- ]]; then\n"
          "            if ((COMP_CWORD == i + 1)); then\n"
          "                mapfile -t COMPREPLY < <(compgen -c -- \"$word\")\n"
          "            else\n"
          "                mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
          "            fi\n"
          "            return\n"
          "        fi\n"
          "        case \"$path ${COMP_WORDS[i]}\" in\n",
          file);
    for (int i = 0; i < tables->count; i++) {
        const char *path = path_inside(&tables->entries[i]);
        const char *space = strrchr(path, ' ');
        if (*path && space)
            fprintf(file, "            '%s') path='%s' ;;\n", path, path);
        else if (*path)
            fprintf(file, "            ' %s') path='%s' ;;\n", path, path);
    }
    fputs("        esac\n"
          "    done\n"
          "    case $path in\n",
          file);
    for (int i = 0; i < tables->count; i++) {
        const manual_entry *entry = &tables->entries[i];
        fprintf(file, "        '%s')\n            words='", path_inside(entry));
        bash_words_print(entry, file);
        fputs("'\n", file);
        if (entry->group) {
            fputs("            is_group=1\n", file);
        } else {
            bash_values_print(entry, file);
            fputs("            listed=", file);
            if (strcmp(entry->syntax->command, "conf") == 0)
                fputs("$settings", file);
            fputc('\'', file);
            listed_print(entry->syntax, file);
            fputs("'\n", file);
        }
        fputs("            ;;\n", file);
    }
    fputs("    esac\n"
          "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
          "        [[ \" $listed \" != *\" ${COMP_WORDS[i]} \"* ]] || listed=''\n"
          "    done\n"
          "    if [[ $values == *\" $before \"* ]]; then\n"
          "        return\n"
          "    elif [[ $files != *\" $before \"* && ($word == -* || $is_group) ]]; then\n"
          "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
          "    elif [[ $files != *\" $before \"* && $listed ]]; then\n"
          "        mapfile -t COMPREPLY < <(compgen -W \"$listed\" -- \"$word\")\n"
          "    else\n"
          "        mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
          "    fi\n"
          "}\n"
          "complete -o filenames -F _tenure tenure\n",
          file);
}

/* ---- zsh ------------------------------------------------------------------------------------ */

static void zsh_options_print(const manual_entry *entry, FILE *file)
{
    for (const cli_option *option = entry->syntax->options; option->name; option++) {
        fprintf(file, "                '--%s[", option->name);
        help_line_print(option->help, "[]:\\", file);
        fputc(']', file);
        if (!option->flag) {
            fputc(':', file);
            help_line_print(option->argument, ":\\", file);
            if (takes_settings(option)) {
                fputs(":compadd -S \\: -- ", file);
                settings_print("", file);
            } else {
                fputs(manual_takes_file(option) ? ":_files" : ": ", file);
            }
        }
        fputs("' \\\n", file);
    }
    fputs("                '--help[print the help]' \\\n                ", file);
    listed_word word;
    if (listed_next(entry->syntax, NULL, &word)) {
        fputs("'1:command:(", file);
        listed_print(entry->syntax, file);
        fputs(")' ", file);
    }
    fputs(strcmp(entry->syntax->command, "run") == 0 ? "'*::program:_normal'" : "'*:file:_files'",
          file);
    fputs("\n", file);
}

static void zsh_commands_print(const manual_entry *entry, FILE *file)
{
    fputs("            words_of=(\n", file);
    for (const cli_command *command = entry->group->commands; command->name; command++) {
        fprintf(file, "                '%s:", command->name);
        help_line_print(command->summary, ":\\", file);
        fputs("'\n", file);
    }
    fputs("            )\n            _describe command words_of\n", file);
}

void manual_zsh_print(const manual_tables *tables, FILE *file)
{
    fputs("#compdef tenure\n"
          "# Written by `tenure manual`, from the command's own tables.\n"
          "_tenure() {\n"
          "    local place='' i\n"
          "    local -a words_of\n"
          "    for ((i = 2; i < CURRENT; i++)); do\n"
          "        case \"$place ${words[i]}\" in\n",
          file);
    for (int i = 0; i < tables->count; i++) {
        const char *path = path_inside(&tables->entries[i]);
        if (*path)
            fprintf(file, "            '%s%s') place='%s' ;;\n", strchr(path, ' ') ? "" : " ", path,
                    path);
    }
    fputs("            *) break ;;\n"
          "        esac\n"
          "    done\n"
          "    # What _arguments sees begins with the command.\n"
          "    ((i > 2)) && { shift $((i - 2)) words; ((CURRENT -= i - 2)); }\n"
          "    case $place in\n",
          file);
    for (int i = 0; i < tables->count; i++) {
        const manual_entry *entry = &tables->entries[i];
        fprintf(file, "        '%s')\n", path_inside(entry));
        if (entry->group) {
            zsh_commands_print(entry, file);
        } else {
            fputs("            _arguments \\\n", file);
            zsh_options_print(entry, file);
        }
        fputs("            ;;\n", file);
    }
    fputs("    esac\n"
          "}\n"
          "if [[ $funcstack[1] == _tenure ]]; then\n"
          "    _tenure \"$@\"\n"
          "elif (($+functions[compdef])); then\n"
          "    compdef _tenure tenure\n"
          "fi\n",
          file);
}

/* ---- fish ----------------------------------------------------------------------------------- */

void manual_fish_print(const manual_tables *tables, FILE *file)
{
    fputs("# Written by `tenure manual`, from the command's own tables.\n"
          "# True where the command line names this command and no other one below it.\n"
          "function __tenure_at\n"
          "    set -l place ''\n"
          "    for word in (commandline -opc)[2..-1]\n"
          "        switch \"$place $word\"\n"
          "            case",
          file);
    for (int i = 0; i < tables->count; i++) {
        const char *path = path_inside(&tables->entries[i]);
        if (*path)
            fprintf(file, " '%s%s'", strchr(path, ' ') ? "" : " ", path);
    }
    fputs("\n"
          "                set place (string trim \"$place $word\")\n"
          "            case '*'\n"
          "                break\n"
          "        end\n"
          "    end\n"
          "    test \"$place\" = \"$argv[1]\"\n"
          "end\n",
          file);
    for (int i = 0; i < tables->count; i++) {
        const manual_entry *entry = &tables->entries[i];
        const char *path = path_inside(entry);
        if (entry->group) {
            for (const cli_command *command = entry->group->commands; command->name; command++) {
                fprintf(file, "complete -c tenure -n '__tenure_at \"%s\"' -f -a %s -d '", path,
                        command->name);
                help_line_print(command->summary, "\\", file);
                fputs("'\n", file);
            }
        } else {
            for (const cli_option *option = entry->syntax->options; option->name; option++) {
                fprintf(file, "complete -c tenure -n '__tenure_at \"%s\"' -l %s%s -d '", path,
                        option->name,
                        option->flag                ? ""
                        : manual_takes_file(option) ? " -r -F"
                                                    : " -x");
                help_line_print(option->help, "\\", file);
                fputc('\'', file);
                if (takes_settings(option)) {
                    fputs(" -a '", file);
                    settings_print(":", file);
                    fputc('\'', file);
                }
                fputc('\n', file);
            }
            listed_word word;
            for (const char *at = NULL; (at = listed_next(entry->syntax, at, &word)) != NULL;) {
                fprintf(file, "complete -c tenure -n '__tenure_at \"%s\"' -a %.*s -d '", path,
                        word.name_length, word.name);
                help_line_print(word.help, "\\", file);
                fputs("'\n", file);
            }
        }
        fprintf(file, "complete -c tenure -n '__tenure_at \"%s\"' -l help -d 'print the help'\n",
                path);
    }
}
