//! The classic-control tasks are Gymnasium 1.4's: every transition of `data/classic_control.csv` is reproduced from its
//! state and action within 1e-5 of max(1, |value|) (Acrobot 1e-4), terminations and constant rewards exactly; starts
//! are uniform over Gymnasium's bounds; spaces and time limits are Gymnasium's.

use std::fs;

use gleaner::{
    env::{
        Acrobot, AcrobotOptions, CartPole, CartPoleOptions, Env, MountainCar, MountainCarContinuous,
        MountainCarOptions, Pendulum, PendulumOptions, Transition,
    },
    seed::{Purpose, Seed, Stream},
    space::Space,
    task::{Task, check_spaces},
};

struct Golden {
    case: String,
    state: Vec<f64>,
    action: f64,
    next_state: Vec<f64>,
    observation: Vec<f64>,
    reward: f64,
    terminated: bool,
}

fn golden(task: &str) -> Vec<Golden> {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/classic_control.csv")).unwrap();
    let numbers = |cell: &str| cell.split(';').map(|x| x.parse().unwrap()).collect::<Vec<f64>>();
    let rows = text.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    rows.filter(|cells| cells[0] == task)
        .map(|cells| Golden {
            case: format!("{task} case {}", cells[1]),
            state: numbers(cells[2]),
            action: cells[3].parse().unwrap(),
            next_state: numbers(cells[4]),
            observation: numbers(cells[5]),
            reward: cells[6].parse().unwrap(),
            terminated: cells[7] == "1",
        })
        .collect()
}

/// The error as a multiple of max(1, |want|); checked against `bound`.
fn error(case: &str, what: &str, got: f32, want: f64, bound: f64) -> f64 {
    let error = (f64::from(got) - want).abs() / want.abs().max(1.0);
    assert!(error <= bound, "{case}: {what} is {got}, not {want}: error {error:e}, bound {bound:e}");
    error
}

/// Steps every case of `task`; `state` and `build` convert between the environment and the table's state.
fn reproduce<E: Env<Observation = [f32; O]>, const S: usize, const O: usize>(
    task: &str,
    bound: f64,
    build: impl Fn([f32; S]) -> E,
    state: impl Fn(&E) -> [f32; S],
    action: impl Fn(f64) -> E::Action,
    exact_reward: bool,
) {
    let cases = golden(task);
    let mut worst = [0_f64; 3];
    for golden in &cases {
        let mut env = build(std::array::from_fn(|i| golden.state[i] as f32));
        let mut stream = Stream::new(Seed(0), 0, Purpose::Env, 0);
        let Transition { observation, reward, terminated, truncated } = env.step(&action(golden.action), &mut stream);
        assert_eq!((golden.state.len(), golden.observation.len()), (S, O), "{}", golden.case);
        for (got, want) in state(&env).into_iter().zip(&golden.next_state) {
            worst[0] = worst[0].max(error(&golden.case, "state", got, *want, bound));
        }
        for (got, want) in observation.into_iter().zip(&golden.observation) {
            worst[1] = worst[1].max(error(&golden.case, "observation", got, *want, bound));
        }
        let reward_bound = if exact_reward { 0.0 } else { bound };
        worst[2] = worst[2].max(error(&golden.case, "reward", reward, golden.reward, reward_bound));
        assert_eq!(terminated, golden.terminated, "{}: terminated", golden.case);
        assert!(!truncated, "{}: truncated", golden.case);
    }
    assert!(cases.len() >= 200, "{task}: {} cases", cases.len());
    println!(
        "{task}: {} cases, worst errors of state, observation, reward: {:.1e}, {:.1e}, {:.1e}",
        cases.len(),
        worst[0],
        worst[1],
        worst[2]
    );
}

#[test]
fn cart_pole_is_gymnasium_s() {
    reproduce(
        "CartPole-v1",
        1e-5,
        |[x, x_dot, theta, theta_dot]| CartPole { x, x_dot, theta, theta_dot },
        |env| [env.x, env.x_dot, env.theta, env.theta_dot],
        |action| action as i32,
        true,
    );
}

#[test]
fn pendulum_is_gymnasium_s() {
    reproduce(
        "Pendulum-v1",
        1e-5,
        |[theta, theta_dot]| Pendulum { theta, theta_dot },
        |env| [env.theta, env.theta_dot],
        |action| [action as f32],
        false,
    );
}

#[test]
fn mountain_car_is_gymnasium_s() {
    reproduce(
        "MountainCar-v0",
        1e-5,
        |[position, velocity]| MountainCar { position, velocity },
        |env| [env.position, env.velocity],
        |action| action as i32,
        true,
    );
}

#[test]
fn mountain_car_continuous_is_gymnasium_s() {
    reproduce(
        "MountainCarContinuous-v0",
        1e-5,
        |[position, velocity]| MountainCarContinuous { position, velocity },
        |env| [env.position, env.velocity],
        |action| [action as f32],
        false,
    );
}

#[test]
fn acrobot_is_gymnasium_s() {
    reproduce(
        "Acrobot-v1",
        1e-4,
        |[theta1, theta2, theta1_dot, theta2_dot]| Acrobot { theta1, theta2, theta1_dot, theta2_dot },
        |env| [env.theta1, env.theta2, env.theta1_dot, env.theta2_dot],
        |action| action as i32,
        true,
    );
}

#[test]
fn every_case_of_the_table_is_tested() {
    let tasks = ["CartPole-v1", "Pendulum-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Acrobot-v1"];
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/classic_control.csv")).unwrap();
    assert_eq!(tasks.iter().map(|task| golden(task).len()).sum::<usize>(), text.lines().count() - 1);
}

/// Resets 100,000 rows; each number of the start lies in its bounds, with their mean, evenly over 20 bins.
fn starts<E: Env + Default, const S: usize>(
    options: E::Options,
    state: impl Fn(&E) -> [f32; S],
    bounds: [(f32, f32); S],
) {
    const STARTS: u32 = 100_000;
    let name = std::any::type_name::<E>();
    let mut bins = [[0_u32; 20]; S];
    let mut sums = [0_f64; S];
    let mut env = E::default();
    for row in 0..STARTS {
        env.reset(&options, &mut Stream::new(Seed(1), row, Purpose::Env, 0));
        for (i, x) in state(&env).into_iter().enumerate() {
            let (low, high) = bounds[i];
            assert!((low..=high).contains(&x), "{name}: state {i} starts at {x}, not in {low} to {high}");
            let place = f64::from(x - low) / f64::from(high - low);
            sums[i] += place;
            bins[i][((place * 20.0) as usize).min(19)] += 1;
        }
    }
    for i in 0..S {
        let mean = sums[i] / f64::from(STARTS);
        // Five standard deviations of the mean of a uniform number.
        assert!((mean - 0.5).abs() < 5.0 * (1.0 / 12.0 / f64::from(STARTS)).sqrt(), "{name}: mean of state {i} {mean}");
        let expected = f64::from(STARTS) / 20.0;
        let chi_square: f64 = bins[i].iter().map(|n| (f64::from(*n) - expected).powi(2) / expected).sum();
        // 19 degrees of freedom: above 50 in one of 10,000 cases.
        assert!(chi_square < 50.0, "{name}: state {i} is not uniform, χ² = {chi_square}: {:?}", bins[i]);
    }
}

#[test]
fn starts_are_uniform_over_gymnasium_s_bounds() {
    let cart = |env: &CartPole| [env.x, env.x_dot, env.theta, env.theta_dot];
    starts(CartPoleOptions::default(), cart, [(-0.05, 0.05); 4]);
    starts(CartPoleOptions { low: 0.1, high: 0.3 }, cart, [(0.1, 0.3); 4]);
    let pendulum = |env: &Pendulum| [env.theta, env.theta_dot];
    starts(PendulumOptions::default(), pendulum, [(-std::f32::consts::PI, std::f32::consts::PI), (-1.0, 1.0)]);
    starts(PendulumOptions { x_init: 0.5, y_init: 2.0 }, pendulum, [(-0.5, 0.5), (-2.0, 2.0)]);
    starts(MountainCarOptions::default(), |env: &MountainCar| [env.position], [(-0.6, -0.4)]);
    starts(MountainCarOptions::default(), |env: &MountainCarContinuous| [env.position], [(-0.6, -0.4)]);
    let acrobot = |env: &Acrobot| [env.theta1, env.theta2, env.theta1_dot, env.theta2_dot];
    starts(AcrobotOptions::default(), acrobot, [(-0.1, 0.1); 4]);
}

#[test]
fn cars_start_at_rest() {
    let mut stream = Stream::new(Seed(1), 0, Purpose::Env, 0);
    let mut env = MountainCar { position: 0.3, velocity: 0.05 };
    assert_eq!(env.reset(&MountainCarOptions::default(), &mut stream)[1], 0.0);
    let mut env = MountainCarContinuous { position: 0.3, velocity: 0.05 };
    assert_eq!(env.reset(&MountainCarOptions::default(), &mut stream)[1], 0.0);
    assert_eq!(env.velocity, 0.0);
}

#[test]
fn time_limits_are_gymnasium_s() {
    assert_eq!(CartPole::TIME_LIMIT, Some(500));
    assert_eq!(Pendulum::TIME_LIMIT, Some(200));
    assert_eq!(MountainCar::TIME_LIMIT, Some(200));
    assert_eq!(MountainCarContinuous::TIME_LIMIT, Some(999));
    assert_eq!(Acrobot::TIME_LIMIT, Some(500));
}

#[test]
fn spaces_are_gymnasium_s() {
    fn symmetric<T: Task>(bounds: &[f32]) {
        check_spaces::<T>().unwrap();
        let low: Vec<_> = bounds.iter().map(|x| -x).collect();
        assert_eq!(T::observation_space(), Space::bounded(low, bounds));
    }
    use std::f32::consts::PI;
    symmetric::<CartPole>(&[4.8, f32::INFINITY, 0.418_879_02, f32::INFINITY]);
    symmetric::<Pendulum>(&[1.0, 1.0, 8.0]);
    symmetric::<Acrobot>(&[1.0, 1.0, 1.0, 1.0, 4.0 * PI, 9.0 * PI]);
    let car = Space::bounded([-1.2, -0.07], [0.6, 0.07]);
    assert_eq!((MountainCar::observation_space(), MountainCarContinuous::observation_space()), (car.clone(), car));
    assert_eq!(CartPole::action_space(), Space::discrete(2));
    assert_eq!(MountainCar::action_space(), Space::discrete(3));
    assert_eq!(Acrobot::action_space(), Space::discrete(3));
    assert_eq!(Pendulum::action_space(), Space::uniform(-2.0, 2.0, 1));
    assert_eq!(MountainCarContinuous::action_space(), Space::uniform(-1.0, 1.0, 1));
}
