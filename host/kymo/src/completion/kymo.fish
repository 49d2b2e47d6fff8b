# SPDX-License-Identifier: MIT OR Apache-2.0
# Completion of kymo for fish: asks kymo itself.

function __kymo_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for one in (command kymo __complete -- $words "$current" 2>/dev/null)
        switch $one
            case ':files'
                __fish_complete_path "$current"
            case ':dirs'
                __fish_complete_directories "$current" ''
            case ':command *'
                __fish_complete_subcommand --fcs-skip=(string replace ':command ' '' -- $one)
            case '=*'
            case '*'
                echo $one
        end
    end
end

complete -c kymo -f -a '(__kymo_complete)'
